//! Repository names and tags, as the distribution specification spells them.

/// A repository name that passed the specification's grammar; no part can escape a folder or start with `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepositoryName(String);

impl RepositoryName {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fits = (1..=255).contains(&text.len()) && text.split('/').all(is_component);
        fits.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !alphanumeric(*first) || !alphanumeric(*last) {
        return false;
    }
    bytes
        .split(|byte| alphanumeric(*byte))
        .all(|separator| matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-'))
}

/// A tag: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag(String);

impl Tag {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let first = text.bytes().next().is_some_and(word);
        let rest = text.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-');
        (first && rest && text.len() <= 128).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_of_the_grammar() {
        for good in ["a", "default/digits", "a/b/c", "a.b", "a__b", "a---b", "0/9"] {
            assert!(RepositoryName::parse(good).is_some(), "{good}");
        }
    }

    #[test]
    fn refuses_names_outside_the_grammar() {
        let long = "a/".repeat(128);
        for bad in ["", "A", "a/", "/a", "a//b", "..", "a/../b", "_a", "a_", "a___b", "a..b", "a._b", "ä", &long] {
            assert!(RepositoryName::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn knows_tags() {
        assert!(Tag::parse("v1.0-rc_1").is_some());
        assert!(Tag::parse(&"a".repeat(128)).is_some());
        for bad in ["", ".", "..", "-a", "a/b", "a:b", &"a".repeat(129)] {
            assert!(Tag::parse(bad).is_none(), "{bad}");
        }
    }
}
