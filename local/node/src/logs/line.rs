//! One line of a container log.

use k8s_openapi::jiff::Timestamp;

/// `<time> <stream> <F|P> <text>`, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub time: &'a str,
    pub is_partial: bool,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line without its newline. A line that is not understood is text as a whole.
    pub fn parse(bytes: &'a [u8]) -> Self {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let (time, _stream, tag, text) = (parts.next(), parts.next(), parts.next(), parts.next());
        match (time.map(std::str::from_utf8), tag, text) {
            (Some(Ok(time)), Some(tag @ (b"F" | b"P")), Some(text)) => Self { time, is_partial: tag == b"P", text },
            _ => Self { time: "", is_partial: false, text: bytes },
        }
    }

    /// Whether it was written at `since` or later; a line without a time counts as new.
    pub fn is_since(&self, since: Option<Timestamp>) -> bool {
        since.is_none_or(|since| self.time.parse::<Timestamp>().map_or(true, |time| time >= since))
    }

    /// Appends what a reader sees.
    pub fn show(&self, out: &mut Vec<u8>, with_time: bool) {
        if with_time && !self.time.is_empty() {
            out.extend_from_slice(self.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.text);
        if !self.is_partial {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_lines_apart_and_shows_them() {
        let line = Line::parse(b"2026-01-01T00:00:00.5Z stdout F two words");
        let mut out = Vec::new();
        line.show(&mut out, true);
        Line::parse(b"2026-01-01T00:00:00Z stdout P no end").show(&mut out, false);
        assert_eq!(String::from_utf8(out).unwrap(), "2026-01-01T00:00:00.5Z two words\nno end");
        assert_eq!(Line::parse(b"odd").text, b"odd");
        assert_eq!(Line::parse(b"2026-01-01T00:00:00Z stdout F ").text, b"");
    }

    #[test]
    fn knows_what_is_recent() {
        let line = Line::parse(b"2026-01-01T00:00:10Z stdout F x");
        let at = |text: &str| Some(text.parse().unwrap());
        assert!(line.is_since(at("2026-01-01T00:00:10Z")) && line.is_since(None));
        assert!(!line.is_since(at("2026-01-01T00:00:11Z")));
    }
}
