//! Taking a set of paths out of an object.

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::FieldSet;
use super::view::View;
use crate::node::Node;

/// The value without the members of the set; atomic values go only as a whole, by their parent.
pub(super) fn remove(node: &Node, value: &Value, set: &FieldSet) -> Value {
    if set.children.is_empty() {
        return value.clone();
    }
    match View::of(node, Some(value)) {
        View::Leaf | View::Nothing => value.clone(),
        View::Map(map) => {
            let mut rest = Map::new();
            for (name, item) in map {
                let below = set.children.get(&Element::Field(name.clone()));
                if let Some(kept) = keep(node.field_or_anything(name), item, below) {
                    rest.insert(name.clone(), kept);
                }
            }
            Value::Object(rest)
        }
        View::List(list) => {
            let kept = |(element, item): (Element, &Value)| keep(node.element(), item, set.children.get(&element));
            Value::Array(list.into_iter().filter_map(kept).collect())
        }
    }
}

fn keep(node: &Node, item: &Value, below: Option<&FieldSet>) -> Option<Value> {
    match below {
        None => Some(item.clone()),
        Some(set) if set.member => None,
        Some(set) => Some(remove(node, item, set)),
    }
}
