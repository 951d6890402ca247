//! Words for what is wrong, and labels and selectors within objects.

use modelway_schema::{FieldError, FieldErrorKind};
use serde_json::Value;

use super::columns::list;
use crate::names;

pub(super) fn error(path: impl Into<String>, kind: FieldErrorKind, message: impl Into<String>) -> FieldError {
    FieldError { path: path.into(), kind, message: message.into() }
}

pub(super) fn invalid(path: impl Into<String>, value: &Value, why: &str) -> FieldError {
    error(path, FieldErrorKind::Invalid, format!("Invalid value: {value}: {why}"))
}

pub(super) fn required(path: impl Into<String>, why: &str) -> FieldError {
    let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
    error(path, FieldErrorKind::Required, message)
}

pub(super) fn forbidden(path: impl Into<String>, why: &str) -> FieldError {
    error(path, FieldErrorKind::Forbidden, format!("Forbidden: {why}"))
}

pub(super) fn duplicate(path: impl Into<String>, value: &Value) -> FieldError {
    error(path, FieldErrorKind::Duplicate, format!("Duplicate value: {value}"))
}

/// Refuses a text that is there and not one of the allowed ones.
pub(super) fn one_of(path: impl Into<String>, value: &Value, allowed: &[&str]) -> Option<FieldError> {
    let text = value.as_str()?;
    if allowed.contains(&text) {
        return None;
    }
    let names: Vec<String> = allowed.iter().map(|name| format!("\"{name}\"")).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", names.join(", "));
    Some(error(path, FieldErrorKind::NotSupported, message))
}

/// Refuses a number below zero.
pub(super) fn not_negative(path: impl Into<String>, value: &Value) -> Option<FieldError> {
    let negative = value.as_i64().is_some_and(|number| number < 0);
    negative.then(|| invalid(path, value, "must be greater than or equal to 0"))
}

/// Checks a map of labels.
pub(super) fn labels(path: &str, map: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in map.as_object().into_iter().flatten() {
        errors.extend(names::check_key(key).map(|fault| invalid(path, &key.as_str().into(), &fault)));
        let fault = names::check_value(value.as_str().unwrap_or_default());
        errors.extend(fault.map(|fault| invalid(path, value, &fault)));
    }
    errors
}

/// Checks the keys of a map of annotations.
pub(super) fn annotations(path: &str, map: &Value) -> Vec<FieldError> {
    let keys = map.as_object().into_iter().flatten().map(|(key, _)| key);
    let fault = |key: &String| Some(invalid(path, &key.as_str().into(), &names::check_key(&key.to_lowercase())?));
    keys.filter_map(fault).collect()
}

/// True when the label selector selects objects with these labels; an empty selector selects all.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = list(selector, "/matchExpressions").iter();
    pairs.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| holds(expression, labels))
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let found = expression["key"].as_str().and_then(|key| labels.get(key));
    let listed = || found.is_some_and(|value| list(expression, "/values").contains(value));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

/// Checks the syntax of a label selector.
pub(super) fn selector(path: &str, selector: &Value) -> Vec<FieldError> {
    let mut errors = labels(&format!("{path}.matchLabels"), &selector["matchLabels"]);
    for (index, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        let place = format!("{path}.matchExpressions[{index}]");
        let values = list(expression, "/values").len();
        match expression["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values == 0 => {
                errors
                    .push(required(format!("{place}.values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(forbidden(format!("{place}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(invalid(
                format!("{place}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            )),
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_syntax_is_checked() {
        let good = json!({"a": "", "a.b/c-D_e": "V.1", "app.kubernetes.io/name": "x"});
        assert!(labels("metadata.labels", &good).is_empty());
        for bad in [
            json!({"": "x"}),
            json!({"-a": "x"}),
            json!({"A/b/c": "x"}),
            json!({"a": "b c"}),
            json!({"a": "é"}),
            json!({"a": "-"}),
            json!({"a": "x".repeat(64)}),
            json!({"UP/a": "b"}),
        ] {
            assert_eq!(labels("metadata.labels", &bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn selectors_combine_pairs_and_expressions() {
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d"]}, {"key": "e", "operator": "DoesNotExist"}]});
        assert!(selects(&selector, &json!({"a": "b", "c": "d"})));
        assert!(!selects(&selector, &json!({"a": "b", "c": "x"})));
        assert!(!selects(&selector, &json!({"a": "b", "c": "d", "e": ""})));
    }
}
