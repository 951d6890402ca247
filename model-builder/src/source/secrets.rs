//! Shapes of tokens in small text files. Only the rule is ever reported, never the value.

/// Text files larger than this are not searched.
pub(super) const MAX_SEARCHED: u64 = 64 << 10;

struct Shape {
    prefix: &'static str,
    /// Characters of the token's alphabet that must follow.
    least: usize,
    rule: &'static str,
}

const SHAPES: [Shape; 8] = [
    Shape { prefix: "AKIA", least: 16, rule: "AWS access key" },
    Shape { prefix: "ghp_", least: 36, rule: "GitHub token" },
    Shape { prefix: "github_pat_", least: 22, rule: "GitHub token" },
    Shape { prefix: "glpat-", least: 20, rule: "GitLab token" },
    Shape { prefix: "hf_", least: 30, rule: "Hugging Face token" },
    Shape { prefix: "xoxb-", least: 20, rule: "Slack token" },
    Shape { prefix: "xoxp-", least: 20, rule: "Slack token" },
    Shape { prefix: "sk-ant-", least: 20, rule: "API key" },
];

/// The rule that a file's content breaks, if any. Content that is not text is not searched.
pub(super) fn find(content: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(content).ok()?;
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("private key");
    }
    SHAPES.iter().find(|shape| shape.is_in(text)).map(|shape| shape.rule)
}

impl Shape {
    fn is_in(&self, text: &str) -> bool {
        text.match_indices(self.prefix).any(|(at, _)| {
            let starts_word = !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
            let follows = text[at + self.prefix.len()..].bytes();
            let token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            starts_word && follows.take_while(token).count() >= self.least
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_token_shapes_only() {
        let token = format!("token = ghp_{}", "a1".repeat(18));
        assert_eq!(find(token.as_bytes()), Some("GitHub token"));
        assert_eq!(find(b"-----BEGIN RSA PRIVATE KEY-----\n"), Some("private key"));
        assert_eq!(find(b"hf_short and shelf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), None);
        assert_eq!(find(&[0xff, 0xfe, b'A']), None);
    }
}
