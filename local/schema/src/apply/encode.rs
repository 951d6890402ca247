//! `FieldsV1`: the JSON form of a set of paths.

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::FieldSet;
use crate::depth::MAX_VALUE_DEPTH;

/// Why a `FieldsV1` document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read fieldsV1: {0}")]
pub struct FieldsError(String);

impl FieldSet {
    /// The `FieldsV1` document.
    pub fn encode(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            map.insert(element.encode(), child.encode());
        }
        Value::Object(map)
    }

    /// Reads a `FieldsV1` document.
    pub fn decode(document: &Value) -> Result<Self, FieldsError> {
        let mut set = read(document, 0)?;
        // An empty document at the top is an empty set; below, it is a path.
        set.member = document.get(".").is_some();
        Ok(set)
    }
}

fn read(document: &Value, depth: usize) -> Result<FieldSet, FieldsError> {
    if depth > MAX_VALUE_DEPTH {
        return Err(FieldsError(format!("nests deeper than {MAX_VALUE_DEPTH} levels")));
    }
    let Some(map) = document.as_object() else {
        return Err(FieldsError("every level must be an object".to_owned()));
    };
    let mut set = FieldSet { member: map.is_empty(), ..FieldSet::default() };
    for (name, below) in map {
        if name == "." {
            set.member = true;
            continue;
        }
        let shown: String = name.chars().take(80).collect();
        let element = Element::decode(name)
            .ok_or_else(|| FieldsError(format!("{shown:?} is not one of f:, k:, v:, i: with a value")))?;
        set.put(element, read(below, depth + 1)?);
    }
    Ok(set)
}
