//! What belongs on one line: equations, and numbers with their units.

const SIGNS: [&str; 3] = ["=", "\u{2264}", "\u{2265}"];
const UNITS: [&str; 6] = ["%", "\u{b5}s", "ms", "s", "MiB", "GiB"];

/// No line ends within an equation, or between a number and its unit.
pub fn unbroken(text: &str) -> String {
    let mut words = text.split(' ').peekable();
    let mut joined = String::with_capacity(text.len());
    while let Some(word) = words.next() {
        joined.push_str(word);
        if let Some(next) = words.peek() {
            joined.push(if belong_together(word, next) { '\u{a0}' } else { ' ' });
        }
    }
    joined
}

fn belong_together(word: &str, next: &str) -> bool {
    let unit = next.trim_end_matches([',', ';', '.', ')']);
    let is_number =
        word.trim_start_matches(['\u{2212}', '-', '+', '(', '\u{d7}']).starts_with(|c: char| c.is_ascii_digit());
    SIGNS.contains(&word) || SIGNS.contains(&next) || (is_number && UNITS.contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_and_units_stay_together() {
        assert_eq!(unbroken("threads = 3 instead of 2"), "threads\u{a0}=\u{a0}3 instead of 2");
        assert_eq!(
            unbroken("p95 was 77.9 ms, not \u{2264} 50 ms"),
            "p95 was 77.9\u{a0}ms, not\u{a0}\u{2264}\u{a0}50\u{a0}ms"
        );
        assert_eq!(unbroken("the model expects 8.3 % more"), "the model expects 8.3\u{a0}% more");
    }

    #[test]
    fn all_else_is_left_as_it_is() {
        for text in ["", " ", "a  b ", "it did run in 2 trials", "its s"] {
            assert_eq!(unbroken(text), text);
        }
    }
}
