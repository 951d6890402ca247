//! Content digests: `sha256:<hex>` and `sha512:<hex>`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// A supported hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    const fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A well-formed digest. Its hex part is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn hex(&self) -> &str {
        &self.hex
    }

    pub(crate) fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, hex) = text.split_once(':').ok_or(())?;
        let algorithm = Algorithm::ALL.into_iter().find(|one| one.name() == name).ok_or(())?;
        let lower_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != algorithm.hex_length() || !lower_hex {
            return Err(());
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

/// A digest that is being computed.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest { algorithm: Algorithm::Sha256, hex: hex::encode(hasher.finalize()) },
            Self::Sha512(hasher) => Digest { algorithm: Algorithm::Sha512, hex: hex::encode(hasher.finalize()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_empty_digest() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(Algorithm::Sha256, b"").to_string(), empty);
    }

    #[test]
    fn refuses_what_is_not_a_digest() {
        let long = "0".repeat(64);
        for bad in
            ["", "sha256:", "sha256:00", "md5:00", &long, &format!("sha256:{}", "G".repeat(64)), "sha256:../../x"]
        {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
