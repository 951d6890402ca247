//! Text from outside, made harmless for each place where it is shown.
//!
//! Every renderer hands its whole output through [`visible`] last, so that no control character can reach a terminal or
//! turn the order of a line round, whichever field it came from.

use std::borrow::Cow;

/// Shows what would act: control characters as their pictures, marks that reorder or hide text as the replacement
/// character. Line feeds stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| picture(character).is_none()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| picture(character).unwrap_or(character)).collect())
}

fn picture(character: char) -> Option<char> {
    match character {
        '\n' => None,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)),
        '\u{7f}' => Some('\u{2421}'),
        // The rest of the control block, bidirectional marks, invisible characters, and what HTML forbids.
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => Some('\u{fffd}'),
        _ => None,
    }
}

/// On one line: what breaks lines is a space.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |character: char| matches!(character, '\n' | '\r' | '\t' | '\u{b}' | '\u{c}' | '\u{85}');
    if text.contains(breaks) { Cow::Owned(text.replace(breaks, " ")) } else { Cow::Borrowed(text) }
}

/// At most so many characters; what is cut is marked.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_pictures() {
        assert_eq!(visible("a\u{1b}[31mred\u{7}\r"), "a␛[31mred␇␍");
        assert_eq!(visible("nul\0 tab\t del\u{7f} c1\u{9b}31m"), "nul␀ tab␉ del␡ c1\u{fffd}31m");
        assert_eq!(visible("a\nb"), "a\nb");
    }

    #[test]
    fn marks_that_reorder_or_hide_are_shown() {
        assert_eq!(visible("safe\u{202e}exe.\u{2066}\u{200b}"), "safe\u{fffd}exe.\u{fffd}\u{fffd}");
        assert!(matches!(visible("größer 模型 × −"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(one_line("a\nb\r\nc\td\u{85}e"), "a b  c d e");
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abcde…");
        assert_eq!(shortened("abcd efg", 6), "abcd…");
        assert_eq!(shortened("x", 0), "…");
    }
}
