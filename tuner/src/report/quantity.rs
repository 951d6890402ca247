//! Numbers for people: a unit, and as many digits as mean something.

use serde::{Deserialize, Serialize};

/// What one of a number is: `s` for times, `share` for parts of one, else the word that follows the number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit(pub String);

impl Unit {
    /// Seconds.
    pub const SECONDS: &'static str = "s";
    /// Parts of one, shown in per cent.
    pub const SHARE: &'static str = "share";

    /// From its word.
    pub fn new(word: impl Into<String>) -> Self {
        Self(word.into())
    }

    /// A factor and a word in which numbers up to `largest` read well: the same for a whole axis or column.
    pub fn scaled(&self, largest: f64) -> (f64, &str) {
        match self.0.as_str() {
            Self::SECONDS if largest < 1e-3 => (1e6, "µs"),
            Self::SECONDS if largest < 1.0 => (1e3, "ms"),
            Self::SHARE => (100.0, "%"),
            word => (1.0, word),
        }
    }

    /// One number with its unit.
    pub fn show(&self, value: f64) -> String {
        let (factor, word) = self.scaled(value.abs());
        join(&significant(value * factor, 3), word)
    }

    /// An interval with its unit once: `2.1 to 2.5 s`.
    pub fn show_range(&self, low: f64, high: f64) -> String {
        let (factor, word) = self.scaled(low.abs().max(high.abs()));
        let (low, high) = (significant(low * factor, 3), significant(high * factor, 3));
        join(&format!("{low} to {high}"), word)
    }
}

fn join(number: &str, word: &str) -> String {
    if word.is_empty() { number.to_owned() } else { format!("{number} {word}") }
}

/// Rounded to so many digits that count, never in powers of ten between a millionth and a billion.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = exponent(value, digits);
    if !(-6..=9).contains(&exponent) {
        let digits = usize::try_from(digits - 1).unwrap_or(0);
        return format!("{value:.digits$e}");
    }
    let decimals = digits - 1 - exponent;
    if let Ok(decimals) = usize::try_from(decimals) {
        return trim(&format!("{value:.decimals$}"));
    }
    let step = 10f64.powi(-decimals);
    grouped(&format!("{:.0}", (value / step).round() * step))
}

/// Power of ten of the rounded number: 9.996 with three digits is 10.0.
fn exponent(value: f64, digits: i32) -> i32 {
    let digits = usize::try_from(digits - 1).unwrap_or(0);
    let text = format!("{value:.digits$e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Without zeros that a fraction ends in: 2.50 is 2.5, and 0.10 s is 0.1 s.
fn trim(text: &str) -> String {
    if !text.contains('.') {
        return grouped(text);
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Thousands apart from ten thousand on, by a space that does not break.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
    if digits.len() < 5 {
        return text.to_owned();
    }
    let mut grouped = String::with_capacity(text.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}")
}

/// A whole number.
pub fn whole(value: usize) -> String {
    grouped(&value.to_string())
}

/// A probability that never claims to be sure.
pub fn probability(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => "unknown".to_owned(),
        percent if percent > 99.0 => "over 99 %".to_owned(),
        percent if percent < 1.0 => "under 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// A factor as a change: 1.5 is `+50 %`, 3 is `3 times`.
pub fn change(factor: f64) -> String {
    let percent = (factor - 1.0) * 100.0;
    match factor {
        factor if !factor.is_finite() => "unknown".to_owned(),
        factor if factor >= 2.0 => format!("×{}", significant(factor, 3)),
        _ if percent.abs() < 0.05 => "±0 %".to_owned(),
        _ if percent < 0.0 => format!("\u{2212}{} %", significant(-percent, 2)),
        _ => format!("+{} %", significant(percent, 2)),
    }
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    let rounded = |value: f64| format!("{value:.0}");
    match seconds {
        seconds if !seconds.is_finite() || seconds < 0.0 => "unknown".to_owned(),
        seconds if seconds < 99.5 => format!("{} s", significant(seconds, 2)),
        seconds if seconds < 5940.0 => format!("{} min", rounded(seconds / 60.0)),
        seconds => format!("{} h", significant(seconds / 3600.0, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (2.314_159, "2.31"),
            (9.996, "10"),
            (99.96, "100"),
            (412.37, "412"),
            (1234.0, "1230"),
            (12_345.0, "12\u{a0}300"),
            (1_234_567.0, "1\u{a0}230\u{a0}000"),
            (-0.001_234, "-0.00123"),
            (-12_345.0, "-12\u{a0}300"),
            (1e-9, "1.00e-9"),
            (3.2e15, "3.20e15"),
            (f64::NAN, "unknown"),
            (f64::INFINITY, "unknown"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value, 3), text, "{value}");
        }
    }

    #[test]
    fn times_and_shares_have_the_unit_that_reads_well() {
        assert_eq!(Unit::new("s").show(0.0183), "18.3 ms");
        assert_eq!(Unit::new("s").show(0.000_045), "45 µs");
        assert_eq!(Unit::new("s").show(2.5), "2.5 s");
        assert_eq!(Unit::new("share").show(0.004), "0.4 %");
        assert_eq!(Unit::new("requests/s").show(412.3), "412 requests/s");
        assert_eq!(Unit::new("").show(3.0), "3");
        assert_eq!(Unit::new("s").show_range(0.09, 1.2), "0.09 to 1.2 s");
    }

    #[test]
    fn nothing_is_said_to_be_certain() {
        assert_eq!(probability(0.9999), "over 99 %");
        assert_eq!(probability(0.0), "under 1 %");
        assert_eq!(probability(0.953), "95 %");
    }

    #[test]
    fn factors_are_changes_until_they_double() {
        assert_eq!(change(1.5), "+50 %");
        assert_eq!(change(0.82), "\u{2212}18 %");
        assert_eq!(change(2.31), "×2.31");
        assert_eq!(change(1.0), "±0 %");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(4.2), "4.2 s");
        assert_eq!(duration(840.0), "14 min");
        assert_eq!(duration(9000.0), "2.5 h");
    }
}
