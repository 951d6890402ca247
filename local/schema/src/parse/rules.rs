//! `x-kubernetes-validations` of a node, compiled once its fields are known.

use serde_json::{Map, Value};

use super::Place;
use super::keyword::list;
use crate::SchemaError;
use crate::cel::Rule;
use crate::node::Node;

const KEYWORD: &str = "x-kubernetes-validations";

pub(super) fn compile(map: &Map<String, Value>, into: &mut Node, place: &Place) -> Result<(), SchemaError> {
    for (index, written) in list(map, KEYWORD, place)?.iter().enumerate() {
        let rule = Rule::parse(written, into, place.correlatable).map_err(|(keyword, message)| {
            let dot = if keyword.is_empty() { "" } else { "." };
            place.error(&format!("{KEYWORD}[{index}]{dot}{keyword}"), message)
        })?;
        into.rules.push(rule);
    }
    let below = into.properties.values().chain(into.additional.as_deref()).chain(into.items.as_deref());
    into.has_rules = !into.rules.is_empty() || below.into_iter().any(|child| child.has_rules);
    Ok(())
}
