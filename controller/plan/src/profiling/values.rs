//! Numbers as manifests write them: quantities of resources, limits of metrics.

use modelway_api::duration;

/// Suffixes of a quantity and what they stand for; the longer ones first.
const SUFFIXES: [(&str, f64); 15] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

/// A quantity such as `500m` or `2Gi`; 0 or more.
pub fn quantity(text: &str) -> Option<f64> {
    let (number, suffix) = split(text);
    let scale = SUFFIXES.iter().find(|(known, _)| *known == suffix).map_or(1.0, |(_, scale)| *scale);
    number.parse::<f64>().ok().map(|number| number * scale).filter(|number| number.is_finite() && *number >= 0.0)
}

/// The digits and the suffix of a quantity.
pub fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let suffix = SUFFIXES.iter().map(|(suffix, _)| *suffix).find(|suffix| text.ends_with(suffix)).unwrap_or_default();
    (&text[..text.len() - suffix.len()], suffix)
}

/// A limit of a metric: a number, a share such as `1%`, a time such as `50ms` in seconds.
pub fn limit(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(percent) = text.strip_suffix('%') {
        return number(percent).map(|percent| percent / 100.0);
    }
    number(text).or_else(|| duration::parse(text).ok().map(|time| time.as_secs_f64()))
}

/// A finite number.
pub fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() <= wanted.abs() * 1e-12)
    }

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, wanted) in
            [("500m", 0.5), ("2", 2.0), ("2Gi", 2_147_483_648.0), ("1800Mi", 1_887_436_800.0), ("1e3", 1e3)]
        {
            assert!(close(quantity(text), wanted), "{text}");
        }
        for text in ["", "big", "-1", "1Qi", "NaN", "inf", "Mi"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }

    #[test]
    fn limits_have_units_of_people() {
        for (text, wanted) in [("50ms", 0.05), ("1%", 0.01), ("0.5", 0.5), ("2s", 2.0), ("100", 100.0)] {
            assert!(close(limit(text), wanted), "{text}");
        }
        assert!(["", "fast", "NaN", "5 parrots"].iter().all(|text| limit(text).is_none()));
    }
}
