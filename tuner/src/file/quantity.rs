//! Amounts with units.

use std::time::Duration;

/// Suffixes as Kubernetes has them.
const SUFFIXES: [(&str, f64); 12] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("m", 1e-3),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

/// `512Mi`, `500m`, `2`: the number that it means; finite and not below 0.
pub fn amount(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, factor) =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor))).unwrap_or((text, 1.0));
    let number = number.trim().parse::<f64>().ok()? * factor;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// `15s`, `500ms`, `2m`, `1h`, or seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.trim().parse::<f64>().ok()? * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_suffixes_of_kubernetes() {
        for (text, value) in [("2", 2.0), ("500m", 0.5), ("512Mi", 536_870_912.0), ("1.5 G", 1.5e9), ("1e3", 1000.0)] {
            let found = amount(text).unwrap();
            assert!((found - value).abs() < 1e-9, "{text}: {found}");
        }
        for text in ["", "Mi", "two", "-1", "NaN", "inf", "1Mib", "1 2"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_units_or_are_seconds() {
        for (text, seconds) in [("15s", 15.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0.25", 0.25)] {
            assert!((duration(text).unwrap().as_secs_f64() - seconds).abs() < 1e-9, "{text}");
        }
        assert!(["", "s", "-1s", "5 weeks", "1e300h", "NaN"].iter().all(|text| duration(text).is_none()));
    }
}
