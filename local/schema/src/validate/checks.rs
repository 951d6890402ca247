//! Value validations of one value.

use serde_json::{Number, Value};

use super::message;
use crate::checks::{Bound, Checks};
use crate::error::FieldError;
use crate::format::Format;
use crate::node::Type;
use crate::path;

/// Floats up to here are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// Whether the value has the type; whole floats are integers while they are exact.
pub(super) fn has_type(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => is_integer(value),
        Type::IntOrString => value.is_string() || is_integer(value),
    }
}

fn is_integer(value: &Value) -> bool {
    let whole = |number: &Number| number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() <= MAX_EXACT);
    value.as_number().is_some_and(|number| number.is_i64() || whole(number))
}

/// Appends an error when an integer's value does not fit its format.
pub(super) fn range(checks: &Checks, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let fits = match (checks.format, value.as_i64()) {
        (Some(Format::Int32), Some(integer)) => i32::try_from(integer).is_ok(),
        _ => is_integer(value),
    };
    if !fits {
        errors.push(message::out_of_range(at, checks.format));
    }
}

/// Appends what is wrong with the value.
pub(super) fn check(checks: &Checks, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(kind) = checks.kind
        && !has_type(kind, value)
    {
        errors.push(message::wrong_type(at, kind, checks.format, value));
        enumeration(checks, value, at, errors);
        return;
    }
    enumeration(checks, value, at, errors);
    match value {
        Value::String(text) => string(checks, text, at, errors),
        Value::Number(number) => numeric(checks, number, at, errors),
        Value::Array(list) => array(checks, list, at, errors),
        Value::Object(map) => object(checks, map, at, errors),
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(format) = checks.format
        && !format.accepts(value)
    {
        errors.push(message::wrong_format(at, format, value));
    }
    combinations(checks, value, at, errors);
}

/// Appends an error unless the value is one of those that may be; null never is.
pub(super) fn enumeration(checks: &Checks, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let known = |known| !value.is_null() && same(known, value);
    if !checks.enumeration.is_empty() && !checks.enumeration.iter().any(known) {
        errors.push(message::not_supported(at, value, &checks.enumeration));
    }
}

/// Equality of JSON values where `1` and `1.0` are the same number.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right
                || left.as_f64().zip(right.as_f64()).is_some_and(|(left, right)| left.total_cmp(&right).is_eq())
        }
        _ => left == right,
    }
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn string(checks: &Checks, text: &str, at: &str, errors: &mut Vec<FieldError>) {
    let length = size(text.chars().count());
    let value = || Value::String(text.to_owned());
    // One error is enough for a string.
    if let Some(max) = checks.max_length.filter(|max| length > *max) {
        errors.push(message::too_long(at, max));
    } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
        errors.push(message::in_body(at, &value(), &format!("should be at least {min} chars long")));
    } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
        errors.push(message::in_body(at, &value(), &format!("should match '{}'", pattern.text)));
    }
}

pub(super) fn numeric(checks: &Checks, number: &Number, at: &str, errors: &mut Vec<FieldError>) {
    let Some(float) = number.as_f64() else { return };
    let value = || Value::Number(number.clone());
    let below = |bound: &Bound| float < bound.value || (bound.exclusive && float <= bound.value);
    let above = |bound: &Bound| float > bound.value || (bound.exclusive && float >= bound.value);
    let or_equal = |bound: Bound| if bound.exclusive { "" } else { " or equal to" };
    if let Some(bound) = checks.minimum.filter(below) {
        let text = format!("should be greater than{} {}", or_equal(bound), bound.value);
        errors.push(message::in_body(at, &value(), &text));
    }
    if let Some(bound) = checks.maximum.filter(above) {
        let text = format!("should be less than{} {}", or_equal(bound), bound.value);
        errors.push(message::in_body(at, &value(), &text));
    }
    if let Some(factor) = checks.multiple_of.filter(|factor| (float / factor).fract().abs() > f64::EPSILON) {
        errors.push(message::in_body(at, &value(), &format!("should be a multiple of {factor}")));
    }
}

fn array(checks: &Checks, list: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    let length = size(list.len());
    if let Some(max) = checks.max_items.filter(|max| length > *max) {
        errors.push(message::too_many(at, length, max));
    }
    if let Some(min) = checks.min_items.filter(|min| length < *min) {
        errors.push(message::in_body(at, &Value::from(length), &format!("should have at least {min} items")));
    }
    if let Some(items) = &checks.items {
        for (index, item) in list.iter().enumerate() {
            check(items, item, &path::index(at, index), errors);
        }
    }
}

fn object(checks: &Checks, map: &serde_json::Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for name in checks.required.iter().filter(|name| !map.contains_key(*name)) {
        errors.push(message::required(&path::field(at, name)));
    }
    let length = size(map.len());
    if let Some(max) = checks.max_properties.filter(|max| length > *max) {
        errors.push(message::too_many(at, length, max));
    }
    if let Some(min) = checks.min_properties.filter(|min| length < *min) {
        errors.push(message::in_body(at, &Value::from(length), &format!("should have at least {min} properties")));
    }
    for (name, below) in &checks.properties {
        if let Some(item) = map.get(name) {
            check(below, item, &path::field(at, name), errors);
        }
    }
}

fn combinations(checks: &Checks, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let errors_of = |branch: &Checks| {
        let mut found = Vec::new();
        check(branch, value, at, &mut found);
        found
    };
    let all: Vec<FieldError> = checks.all_of.iter().flat_map(errors_of).collect();
    if !all.is_empty() {
        errors.push(message::combination(at, "must validate all the schemas (allOf)"));
        errors.extend(all);
    }
    if !checks.any_of.is_empty() {
        let tried: Vec<_> = checks.any_of.iter().map(errors_of).collect();
        if tried.iter().all(|found| !found.is_empty()) {
            errors.push(message::combination(at, "must validate at least one schema (anyOf)"));
            errors.extend(nearest(tried));
        }
    }
    if !checks.one_of.is_empty() {
        let tried: Vec<_> = checks.one_of.iter().map(errors_of).collect();
        match tried.iter().filter(|found| found.is_empty()).count() {
            1 => {}
            0 => {
                let text = "must validate one and only one schema (oneOf). Found none valid";
                errors.push(message::combination(at, text));
                errors.extend(nearest(tried));
            }
            valid => {
                let text = format!("must validate one and only one schema (oneOf). Found {valid} valid alternatives");
                errors.push(message::combination(at, &text));
            }
        }
    }
    if checks.not.as_ref().is_some_and(|branch| errors_of(branch).is_empty()) {
        errors.push(message::combination(at, "must not validate the schema (not)"));
    }
}

/// The errors of the branch that was missed by least.
fn nearest(tried: Vec<Vec<FieldError>>) -> Vec<FieldError> {
    tried.into_iter().min_by_key(Vec::len).unwrap_or_default()
}
