//! Reading of single keywords with errors that name them.

use serde_json::{Map, Value};

use super::{Mode, Place};
use crate::SchemaError;

/// Keywords a structural schema must not use; all others that are unknown are ignored, as Kubernetes does.
const UNSUPPORTED: [&str; 12] = [
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "additionalItems",
    "uniqueItems",
];

pub(super) fn refuse_unsupported(map: &Map<String, Value>, place: &Place) -> Result<(), SchemaError> {
    if map.contains_key("$ref") {
        return Err(place.error("$ref", "Forbidden: $ref is not supported, write the schema out"));
    }
    if place.mode == Mode::Builtin {
        return Ok(());
    }
    for keyword in UNSUPPORTED {
        let used = map.get(keyword).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
        if used {
            return Err(place.error(keyword, format!("Forbidden: {keyword} is not supported")));
        }
    }
    Ok(())
}

pub(super) fn text<'a>(map: &'a Map<String, Value>, keyword: &str) -> Option<&'a str> {
    map.get(keyword)?.as_str()
}

pub(super) fn flag(map: &Map<String, Value>, keyword: &str, place: &Place) -> Result<bool, SchemaError> {
    match map.get(keyword) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(place.error(keyword, "Invalid value: must be true or false")),
    }
}

pub(super) fn object<'a>(
    map: &'a Map<String, Value>,
    keyword: &str,
    place: &Place,
) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
    match map.get(keyword) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(place.error(keyword, "Invalid value: must be an object")),
    }
}

pub(super) fn list<'a>(map: &'a Map<String, Value>, keyword: &str, place: &Place) -> Result<&'a [Value], SchemaError> {
    match map.get(keyword) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(place.error(keyword, "Invalid value: must be an array")),
    }
}

pub(super) fn words(map: &Map<String, Value>, keyword: &str, place: &Place) -> Result<Vec<String>, SchemaError> {
    list(map, keyword, place)?
        .iter()
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(|| place.error(keyword, "Invalid value: must be an array of strings"))
}

pub(super) fn count(map: &Map<String, Value>, keyword: &str, place: &Place) -> Result<Option<u64>, SchemaError> {
    match map.get(keyword) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(count) => Ok(Some(count)),
            None => Err(place.error(keyword, format!("Invalid value: {value}: must be a whole number of 0 or more"))),
        },
    }
}

pub(super) fn number(map: &Map<String, Value>, keyword: &str, place: &Place) -> Result<Option<f64>, SchemaError> {
    match map.get(keyword) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(place.error(keyword, format!("Invalid value: {value}: must be a number"))),
        },
    }
}
