//! Quantities: numbers with a unit, such as `500m` or `1Gi`.

use serde_json::Value;

/// The places below which every value is a quantity.
const MAPS: [&str; 5] = ["requests", "limits", "capacity", "hard", "overhead"];
/// Fields that are one quantity.
const FIELDS: [&str; 2] = ["sizeLimit", "divisor"];

/// Whether some quantity in the object of a built-in kind cannot be read.
pub fn is_any_malformed(object: &Value) -> bool {
    // The schemas in a definition speak of fields, and hold no quantities.
    if object["kind"] == "CustomResourceDefinition" {
        return false;
    }
    ["spec", "status"].iter().any(|part| walk(&object[part]))
}

fn walk(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(name, item)| match name.as_str() {
            name if MAPS.contains(&name) => item.as_object().is_some_and(|map| map.values().any(is_malformed)),
            name if FIELDS.contains(&name) => is_malformed(item),
            _ => walk(item),
        }),
        Value::Array(list) => list.iter().any(walk),
        _ => false,
    }
}

/// A plain number is a quantity too.
fn is_malformed(value: &Value) -> bool {
    value.is_string() && of(value).is_none()
}

/// About what a quantity stands for; none when it is malformed.
pub(super) fn of(quantity: &Value) -> Option<f64> {
    parse(quantity.as_str()?)
}

/// About what the text stands for.
pub fn parse(text: &str) -> Option<f64> {
    let is_number = |character: char| matches!(character, '0'..='9' | '.');
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let (number, unit) = rest.split_at(rest.find(|character| !is_number(character)).unwrap_or(rest.len()));
    if !number.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(sign * number.parse::<f64>().ok()? * factor(unit)?)
}

fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn units_are_those_of_kubernetes() {
        for (text, expected) in
            [("500m", 0.5), ("1Gi", 1_073_741_824.0), ("1e3", 1000.0), (".5", 0.5), ("-2k", -2000.0)]
        {
            assert!(parse(text).is_some_and(|found| (found - expected).abs() < 1e-6), "{text}");
        }
        for text in ["", "x", "1x", "1.2.3", "Gi", "--1", "1 Gi", "1kb", "."] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn malformed_ones_are_found_where_they_stand() {
        let pod = |cpu: &str| json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}});
        assert!(is_any_malformed(&pod("1x")) && !is_any_malformed(&pod("1")));
        let volume = json!({"spec": {"volumes": [{"emptyDir": {"sizeLimit": "big"}}]}});
        assert!(is_any_malformed(&volume));
    }
}
