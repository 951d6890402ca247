//! Durations in manifests as Kubernetes users write them: `300ms`, `1.5s`, `2m30s`, `1h`.

use std::time::Duration;

/// A duration that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("\"{text}\" is not a duration: write numbers with units such as 300ms, 10s, 2m30s or 1h")]
pub struct DurationError {
    /// What was given.
    pub text: String,
}

/// Longest duration accepted: a year, so that sums never overflow.
const MAX: Duration = Duration::from_hours(365 * 24);

/// Reads a duration; negative ones and bare numbers other than `0` are refused.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError { text: text.chars().take(64).collect() };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let number: f64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number * unit(&rest[..letters]).ok_or_else(error)?;
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).ok().filter(|duration| *duration <= MAX).ok_or_else(error)
}

fn unit(text: &str) -> Option<f64> {
    match text {
        "ns" => Some(1e-9),
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3_600.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse("2m30s"), Ok(Duration::from_secs(150)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn refuses_the_rest_with_the_text() {
        for text in ["", "5", "-1s", "1 s", "1x", "s", "1..5s", "99999999h", "1e9s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
