//! The set of paths an applied object asks for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::Element;
use super::fields::FieldSet;
use super::view::View;
use crate::node::Node;

/// The paths of an object's fields; the error names a list whose elements cannot be told apart.
pub(super) fn extract(node: &Node, object: &Value) -> Result<FieldSet, String> {
    walk(node, object).map(FieldSet::without_identity)
}

/// As [`extract`], with such lists owned as a whole: stored objects are taken as they are.
pub(super) fn extract_stored(node: &Node, object: &Value) -> FieldSet {
    stored(node, object)
}

fn walk(node: &Node, value: &Value) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    match View::checked(node, Some(value))? {
        View::Leaf => set.member = true,
        View::Nothing => {}
        View::Map(map) => {
            for (name, item) in map {
                let mut child = walk(node.field_or_anything(name), item).map_err(|why| format!(".{name}{why}"))?;
                child.member |= owned_by_name(node, name, item);
                set.put(Element::Field(name.clone()), child);
            }
        }
        View::List(list) => {
            let mut seen = BTreeSet::new();
            for (element, item) in list {
                if !seen.insert(element.clone()) {
                    return Err(format!(": duplicate entries for key {element}"));
                }
                let mut child = walk(node.element(), item).map_err(|why| format!("{element}{why}"))?;
                child.member = true;
                set.put(element, child);
            }
        }
    }
    Ok(set)
}

fn stored(node: &Node, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match View::of(node, Some(value)) {
        View::Leaf => set.member = true,
        View::Nothing => {}
        View::Map(map) => {
            for (name, item) in map {
                let mut child = stored(node.field_or_anything(name), item);
                child.member |= owned_by_name(node, name, item);
                set.put(Element::Field(name.clone()), child);
            }
        }
        View::List(list) => {
            for (element, item) in list {
                let mut child = stored(node.element(), item);
                child.member = true;
                set.put(element, child);
            }
        }
    }
    set
}

/// A map's key is owned with its value; a struct's field only when there is nothing in it to own.
fn owned_by_name(node: &Node, name: &str, item: &Value) -> bool {
    item.is_null() || item.as_object().is_some_and(serde_json::Map::is_empty) || !node.declares(name)
}
