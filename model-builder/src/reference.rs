//! Names of repositories and images: `host[:port]/path[:tag][@sha256:...]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::digest::Digest;

/// Text that does not name an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an image reference: {why}")]
pub struct ReferenceError {
    text: String,
    why: &'static str,
}

/// A repository on a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repository {
    /// Host and port of the registry.
    pub registry: String,
    /// Path on the registry.
    pub name: String,
}

impl Repository {
    /// Whether the registry is on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = match self.registry.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.registry.split(':').next().unwrap_or_default(),
        };
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.name)
    }
}

impl FromStr for Repository {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let bad = |why| ReferenceError { text: text.chars().take(300).collect(), why };
        let (registry, name) = text.split_once('/').ok_or_else(|| bad("no registry host"))?;
        let is_host = registry.contains(['.', ':']) || registry == "localhost";
        let (registry, name) = if is_host { (registry, name) } else { ("docker.io", text) };
        if !registry.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte)) {
            return Err(bad("bad registry host"));
        }
        if name.len() > 255 || !name.split('/').all(is_component) {
            return Err(bad("repository names have lower-case letters, digits, and single separators . _ - /"));
        }
        Ok(Self { registry: registry.to_owned(), name: name.to_owned() })
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| word(*byte))
        && bytes.last().is_some_and(|byte| word(*byte))
        && bytes
            .split(|byte| word(*byte))
            .all(|part| matches!(part, b"" | b"." | b"_" | b"__") || part.iter().all(|byte| *byte == b'-'))
}

/// Whether `text` may be a tag: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
pub(crate) fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

/// An image by digest, by tag, or both (then the digest counts).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// Where the image is.
    pub repository: Repository,
    /// The tag, when one is named.
    pub tag: Option<String>,
    /// The digest, when one is named.
    pub digest: Option<Digest>,
}

impl ImageReference {
    /// What the registry is asked for: the digest, else the tag, else `latest`.
    pub fn target(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => "latest",
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(formatter, "@{digest}"))
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let bad = |why| ReferenceError { text: text.chars().take(300).collect(), why };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| bad("bad digest after @"))?)),
            None => (text, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("bad tag"));
        }
        Ok(Self { repository: name.parse()?, tag: tag.map(str::to_owned), digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_references() {
        let hex = "a".repeat(64);
        let by_digest: ImageReference = format!("127.0.0.1:5553/default/digits@sha256:{hex}").parse().unwrap();
        assert_eq!(by_digest.repository.registry, "127.0.0.1:5553");
        assert_eq!(by_digest.repository.name, "default/digits");
        assert_eq!(by_digest.target(), format!("sha256:{hex}"));
        let by_tag: ImageReference = "localhost:1/a:v1".parse().unwrap();
        assert_eq!((by_tag.tag.as_deref(), by_tag.target()), (Some("v1"), "v1"));
        let short: ImageReference = "library/busybox".parse().unwrap();
        assert_eq!((short.repository.registry.as_str(), short.target()), ("docker.io", "latest"));
    }

    #[test]
    fn refuses_what_is_not_a_reference() {
        for bad in ["", "a", "h:1/A", "h:1/a:b c", "h:1/a@sha256:00", "h:1/../a", "h:1/a/", "ho st:1/a"] {
            assert!(bad.parse::<ImageReference>().is_err(), "{bad}");
        }
    }

    #[test]
    fn knows_loopback() {
        let on = |text: &str| text.parse::<Repository>().unwrap().is_loopback();
        assert!(on("127.9.0.1:1/a") && on("localhost:5000/a") && on("[::1]:5000/a"));
        assert!(!on("registry.example.com/a") && !on("localhost.example.com/a") && !on("10.0.0.1:5000/a"));
    }
}
