//! Amounts of bytes in manifests as Kubernetes users write them: `1024`, `64Mi`, `1.5Gi`, `10M`.

/// An amount that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("\"{text}\" is not an amount of bytes: write a number with a unit such as 512Ki, 64Mi, 1Gi or 10M")]
pub struct BytesError {
    /// What was given.
    pub text: String,
}

/// Units, the longer ones first.
const UNITS: [(&str, u64); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("", 1),
];
/// More than any machine has, so that sums never overflow.
const MAX: f64 = (1_u64 << 50) as f64;

/// Reads an amount; fractions of a byte are dropped.
pub fn parse(text: &str) -> Result<u64, BytesError> {
    let error = || BytesError { text: text.chars().take(64).collect() };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..]).ok_or_else(error)?.1;
    let is_plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| is_plain).ok_or_else(error)?;
    let bytes = number * unit as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and MAX")]
    if bytes <= MAX { Ok(bytes as u64) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("1024"), Ok(1_024));
        assert_eq!(parse("64Mi"), Ok(64 << 20));
        assert_eq!(parse("1.5Ki"), Ok(1_536));
        assert_eq!(parse("10M"), Ok(10_000_000));
        assert_eq!(parse("0"), Ok(0));
    }

    #[test]
    fn refuses_the_rest_with_the_text() {
        for text in ["", "Mi", "-1", "1 Mi", "1mi", "1e3", "1..5", "99999999Ti", "NaN"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
