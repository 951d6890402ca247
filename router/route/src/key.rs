//! The 128-bit secret behind every keyed hash of the router.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use thiserror::Error;

/// Length of a key in bytes.
pub const KEY_LENGTH: usize = 16;

/// Secret key of the assignment hash: with a public hash a client could choose its arm.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct RouteKey([u8; KEY_LENGTH]);

/// Why bytes are not a key.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("a route key is exactly {KEY_LENGTH} bytes, got {0}; write 16 random bytes")]
pub struct KeyLengthError(pub usize);

impl RouteKey {
    /// The key made of these bytes.
    pub const fn new(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(bytes)
    }

    /// The key made of a file's or Secret's content.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, KeyLengthError> {
        bytes.try_into().map(Self).map_err(|_| KeyLengthError(bytes.len()))
    }

    /// A hasher for one purpose; different purposes give unrelated hashes.
    pub(crate) fn hasher(&self, purpose: &str) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        write_framed(&mut hasher, purpose.as_bytes());
        hasher
    }
}

impl std::fmt::Debug for RouteKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RouteKey(..)")
    }
}

/// Feeds a part with its length in front, so that no two lists of parts give the same bytes.
pub(crate) fn write_framed(hasher: &mut SipHasher24, part: &[u8]) {
    hasher.write(&(part.len() as u64).to_le_bytes());
    hasher.write(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_keeps_neighbouring_parts_apart() {
        let key = RouteKey::new([7; 16]);
        let hash = |left: &[u8], right: &[u8]| {
            let mut hasher = key.hasher("test");
            write_framed(&mut hasher, left);
            write_framed(&mut hasher, right);
            hasher.finish()
        };
        assert_ne!(hash(b"ab", b"c"), hash(b"a", b"bc"));
    }

    #[test]
    fn refuses_a_key_of_another_length_and_never_prints_one() {
        assert_eq!(RouteKey::from_slice(&[1; 15]), Err(KeyLengthError(15)));
        assert_eq!(format!("{:?}", RouteKey::new([65; 16])), "RouteKey(..)");
    }
}
