//! `allOf`, `anyOf`, `oneOf` and `not`: value validations only, about fields that are specified outside.

use serde_json::{Map, Value};

use super::keyword::{list, object};
use super::{Mode, Place, scalar};
use crate::SchemaError;
use crate::checks::Checks;
use crate::depth::MAX_SCHEMA_DEPTH;
use crate::node::{Node, Type};

/// What a branch must leave to the schema around it.
const FORBIDDEN: [&str; 11] = [
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

pub(super) fn junctors(map: &Map<String, Value>, into: &mut Node, place: &Place) -> Result<(), SchemaError> {
    let mut checks = std::mem::take(&mut into.checks);
    let typed = into.kind == Type::IntOrString;
    combinations(map, &mut checks, Some(into), typed, place)?;
    into.checks = checks;
    Ok(())
}

fn combinations(
    map: &Map<String, Value>,
    into: &mut Checks,
    around: Option<&Node>,
    typed: bool,
    place: &Place,
) -> Result<(), SchemaError> {
    into.all_of = branches(map, "allOf", around, typed, place)?;
    into.any_of = branches(map, "anyOf", around, typed, place)?;
    into.one_of = branches(map, "oneOf", around, typed, place)?;
    if let Some(schema) = map.get("not").filter(|schema| !schema.is_null()) {
        into.not = Some(Box::new(branch(schema, around, typed, &place.below("not"))?));
    }
    Ok(())
}

fn branches(
    map: &Map<String, Value>,
    keyword: &str,
    around: Option<&Node>,
    typed: bool,
    place: &Place,
) -> Result<Vec<Checks>, SchemaError> {
    let each = |(index, schema)| branch(schema, around, typed, &place.below(&format!("{keyword}[{index}]")));
    list(map, keyword, place)?.iter().enumerate().map(each).collect()
}

/// Parses one branch. `around` is the node the branch speaks about; none below what is kept without a schema.
fn branch(schema: &Value, around: Option<&Node>, typed: bool, place: &Place) -> Result<Checks, SchemaError> {
    if place.depth > MAX_SCHEMA_DEPTH {
        return Err(place.error("", format!("Forbidden: schemas nest at most {MAX_SCHEMA_DEPTH} levels deep")));
    }
    let Some(map) = schema.as_object() else {
        return Err(place.error("", "Invalid value: a schema must be an object"));
    };
    let mut checks = scalar::checks(map, place)?;
    checks.kind = branch_kind(map, typed, place)?;
    if place.mode == Mode::Custom {
        refuse_forbidden(map, place)?;
    }
    if let Some(properties) = object(map, "properties", place)? {
        for (name, schema) in properties {
            let below = place.below(&format!("properties[{name}]"));
            let field = specified(around, |node| node.field(name), &below)?;
            checks.properties.insert(name.clone(), branch(schema, field, typed, &below)?);
        }
    }
    if let Some(schema) = map.get("items").filter(|items| items.is_object()) {
        let below = place.below("items");
        let element = specified(around, |node| node.items.as_deref().or(open(node)), &below)?;
        checks.items = Some(Box::new(branch(schema, element, typed, &below)?));
    }
    combinations(map, &mut checks, around, typed, place)?;
    Ok(checks)
}

fn open(node: &Node) -> Option<&Node> {
    node.keeps_unknown().then(Node::anything)
}

/// What a branch speaks about must be specified outside of it.
fn specified<'a>(
    around: Option<&'a Node>,
    find: impl Fn(&'a Node) -> Option<&'a Node>,
    below: &Place,
) -> Result<Option<&'a Node>, SchemaError> {
    let Some(found) = around.map(find) else { return Ok(None) };
    if found.is_none() && below.mode == Mode::Custom {
        let message = "Required value: because it is defined in a branch, it must be specified outside too";
        return Err(below.error("", message));
    }
    Ok(found)
}

fn branch_kind(map: &Map<String, Value>, typed: bool, place: &Place) -> Result<Option<Type>, SchemaError> {
    let Some(word) = map.get("type") else { return Ok(None) };
    if place.mode == Mode::Custom && !typed {
        return Err(place.error("type", "Forbidden: must be empty to be structural"));
    }
    Ok(word.as_str().and_then(Type::parse))
}

fn refuse_forbidden(map: &Map<String, Value>, place: &Place) -> Result<(), SchemaError> {
    match FORBIDDEN.iter().find(|keyword| map.contains_key(**keyword)) {
        Some(keyword) => Err(place.error(keyword, "Forbidden: must be empty to be structural")),
        None => Ok(()),
    }
}
