//! The applied object merged over the live one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::view::View;
use crate::node::Node;

/// Merges; what the applied object does not name stays as it is.
pub(super) fn merge(node: &Node, live: Option<&Value>, applied: &Value) -> Value {
    let Some(live) = live else { return applied.clone() };
    match (View::of(node, Some(live)), View::of(node, Some(applied))) {
        (View::Map(old), View::Map(new)) => Value::Object(maps(node, old, new)),
        (View::List(old), View::List(new)) => Value::Array(lists(node, &old, &new)),
        (View::Map(old), View::Nothing) if !old.is_empty() => live.clone(),
        (View::List(old), View::Nothing) if !old.is_empty() => live.clone(),
        _ => applied.clone(),
    }
}

fn maps(node: &Node, live: &Map<String, Value>, applied: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, item) in applied {
        let value = merge(node.field_or_anything(name), live.get(name), item);
        merged.insert(name.clone(), value);
    }
    merged
}

/// The applied elements in their order; elements of others keep their place before what they stood before.
///
/// The order of Kubernetes: a live element that is applied too waits until its turn in the applied order.
fn lists(node: &Node, live: &[(Element, &Value)], applied: &[(Element, &Value)]) -> Vec<Value> {
    let wanted: BTreeSet<&Element> = applied.iter().map(|(element, _)| element).collect();
    let present: BTreeMap<&Element, &Value> = live.iter().map(|(element, item)| (element, *item)).collect();
    let one = |element: &Element, item: &Value| merge(node.element(), present.get(element).copied(), item);
    let mut shared = applied.iter().map(|(element, _)| element).filter(|element| present.contains_key(element));
    let mut next_shared = shared.next();
    let (mut live, mut applied) = (live.iter().peekable(), applied.iter().peekable());
    let mut merged = Vec::new();
    loop {
        let ahead = live.peek().map(|(element, _)| element);
        match (ahead, applied.peek()) {
            (Some(element), _) if !wanted.contains(element) => {
                merged.extend(live.next().map(|(_, item)| (*item).clone()));
            }
            (Some(element), next) if next.is_none() || next_shared != Some(element) => {
                live.next();
            }
            (_, Some((element, item))) => {
                merged.push(one(element, item));
                if ahead == Some(element) {
                    live.next();
                }
                if next_shared == Some(element) {
                    next_shared = shared.next();
                }
                applied.next();
            }
            (_, None) => return merged,
        }
    }
}
