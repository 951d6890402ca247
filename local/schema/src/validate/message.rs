//! The wording of field errors.

use serde_json::Value;

use crate::error::{FieldError, FieldErrorKind};
use crate::format::Format;
use crate::node::Type;
use crate::path;

/// Values in messages are cut here: an object can have 10 MB.
const MAX_SHOWN: usize = 512;

fn error(at: &str, kind: FieldErrorKind, message: String) -> FieldError {
    FieldError { path: path::shown(at), kind, message }
}

/// The value as it stands in a message.
pub(crate) fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_SHOWN {
        let cut = (0..=MAX_SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.is_i64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go's type with its format, which is named where the schema has a format.
fn format_word(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if !number.is_i64() => "float64",
        Value::Number(_) => "int64",
        _ => "",
    }
}

pub(super) fn wrong_type(at: &str, wanted: Type, format: Option<Format>, value: &Value) -> FieldError {
    let (wanted, got) = match format {
        Some(format) if !matches!(value, Value::String(_) | Value::Array(_) | Value::Null) => {
            (format.word(), format_word(value))
        }
        _ => (wanted.word(), type_word(value)),
    };
    let message = format!("Invalid value: \"{got}\": {at} in body must be of type {wanted}: \"{got}\"");
    error(at, FieldErrorKind::TypeInvalid, message)
}

pub(super) fn wrong_format(at: &str, format: Format, value: &Value) -> FieldError {
    let (word, value) = (format.word(), shown(value));
    let message = format!("Invalid value: {value}: {at} in body must be of type {word}: {value}");
    error(at, FieldErrorKind::TypeInvalid, message)
}

pub(super) fn out_of_range(at: &str, format: Option<Format>) -> FieldError {
    let format =
        format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {}", format.word()));
    let text = format!("Checked value must be of type integer {format} in {at}");
    error("", FieldErrorKind::Invalid, format!("Invalid value: \"\": {text}"))
}

pub(super) fn in_body(at: &str, value: &Value, text: &str) -> FieldError {
    error(at, FieldErrorKind::Invalid, format!("Invalid value: {}: {at} in body {text}", shown(value)))
}

pub(super) fn combination(at: &str, text: &str) -> FieldError {
    error(at, FieldErrorKind::Invalid, format!("Invalid value: \"\": \"{at}\" {text}"))
}

pub(super) fn not_supported(at: &str, value: &Value, known: &[Value]) -> FieldError {
    let known: Vec<String> = known.iter().map(quoted).collect();
    let value = if value.is_null() { &Value::from("null") } else { value };
    let message = format!("Unsupported value: {}: supported values: {}", shown(value), known.join(", "));
    error(at, FieldErrorKind::NotSupported, message)
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(_) => value.to_string(),
        other => Value::String(other.to_string()).to_string(),
    }
}

fn plural(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

pub(super) fn required(at: &str) -> FieldError {
    error(at, FieldErrorKind::Required, "Required value".to_owned())
}

pub(super) fn duplicate(at: &str, value: &Value) -> FieldError {
    error(at, FieldErrorKind::Duplicate, format!("Duplicate value: {}", shown(value)))
}

pub(super) fn no_map_element(at: &str, value: &Value) -> FieldError {
    let message = format!("Invalid value: {}: must be an object for an array of list-type map", shown(value));
    error(at, FieldErrorKind::Invalid, message)
}

pub(super) fn too_long(at: &str, max: u64) -> FieldError {
    error(at, FieldErrorKind::TooLong, format!("Too long: may not be more than {max} {}", plural(max, "byte", "bytes")))
}

pub(super) fn too_many(at: &str, count: u64, max: u64) -> FieldError {
    let items = plural(max, "item", "items");
    error(at, FieldErrorKind::TooMany, format!("Too many: {count}: must have at most {max} {items}"))
}

pub(super) fn rules_not_checked() -> FieldError {
    let text = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                complete validation";
    error("", FieldErrorKind::Invalid, format!("Invalid value: null: {text}"))
}
