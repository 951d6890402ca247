//! Bounds, enumerations, patterns and formats.

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::Place;
use super::keyword::{count, flag, list, number, text, words};
use crate::SchemaError;
use crate::checks::{Bound, Checks, Pattern};
use crate::format::Format;

/// Patterns are users' input: a compiled pattern may not take more memory than this.
const MAX_PATTERN_BYTES: usize = 1 << 20;

pub(super) fn checks(map: &Map<String, Value>, place: &Place) -> Result<Checks, SchemaError> {
    Ok(Checks {
        enumeration: list(map, "enum", place)?.to_vec(),
        required: words(map, "required", place)?,
        minimum: bound(map, "minimum", "exclusiveMinimum", place)?,
        maximum: bound(map, "maximum", "exclusiveMaximum", place)?,
        multiple_of: multiple_of(map, place)?,
        min_length: count(map, "minLength", place)?,
        max_length: count(map, "maxLength", place)?,
        pattern: pattern(map, place)?,
        format: text(map, "format").and_then(Format::parse),
        min_items: count(map, "minItems", place)?,
        max_items: count(map, "maxItems", place)?,
        min_properties: count(map, "minProperties", place)?,
        max_properties: count(map, "maxProperties", place)?,
        ..Checks::default()
    })
}

fn bound(
    map: &Map<String, Value>,
    keyword: &str,
    exclusive: &str,
    place: &Place,
) -> Result<Option<Bound>, SchemaError> {
    let exclusive = flag(map, exclusive, place)?;
    Ok(number(map, keyword, place)?.map(|value| Bound { value, exclusive }))
}

fn multiple_of(map: &Map<String, Value>, place: &Place) -> Result<Option<f64>, SchemaError> {
    match number(map, "multipleOf", place)? {
        Some(factor) if factor <= 0.0 => Err(place.error("multipleOf", "Invalid value: must be greater than 0")),
        factor => Ok(factor),
    }
}

fn pattern(map: &Map<String, Value>, place: &Place) -> Result<Option<Pattern>, SchemaError> {
    let Some(text) = text(map, "pattern") else { return Ok(None) };
    match RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build() {
        Ok(regex) => Ok(Some(Pattern { text: text.to_owned(), regex })),
        Err(error) => {
            let why = error.to_string();
            let reason = why.lines().last().unwrap_or_default();
            Err(place
                .error("pattern", format!("Invalid value: {text:?}: must be a valid regular expression, but {reason}")))
        }
    }
}
