//! Pruning: fields the schema does not know are dropped.

use serde_json::Value;

use crate::node::Node;
use crate::path;

/// Drops unknown fields; returns their paths in the order of the object.
pub(crate) fn prune(node: &Node, value: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(node, value, "", &mut dropped);
    dropped
}

fn walk(node: &Node, value: &mut Value, at: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            // A scalar's or a list's node knows no fields; validation reports the wrong type.
            let open = node.keeps_unknown() || node.additional.is_some();
            if !open {
                map.retain(|name, _| {
                    let known = node.declares(name);
                    if !known {
                        dropped.push(path::field(at, name));
                    }
                    known
                });
            }
            for (name, item) in map.iter_mut() {
                if let Some(child) = node.properties.get(name).or(node.additional.as_deref()) {
                    walk(child, item, &path::field(at, name), dropped);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items.as_deref() else { return };
            for (index, item) in list.iter_mut().enumerate() {
                walk(items, item, &path::index(at, index), dropped);
            }
        }
        _ => {}
    }
}
