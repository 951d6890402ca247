//! Defaulting: absent fields get the schema's default.

use serde_json::{Map, Value};

use crate::node::{Node, Type};

/// Fills defaults below `value`. The recursion follows the schema, whose depth is bounded.
pub(crate) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else { continue };
                let absent = map.get(name).is_none_or(|present| present.is_null() && !child.nullable);
                if absent {
                    map.insert(name.clone(), default.clone());
                }
            }
            drop_nulls(node, map);
            for (name, item) in map.iter_mut() {
                let declared = node.properties.get(name).or(node.additional.as_deref());
                if let Some(child) = declared {
                    replace_null(child, item);
                    fill(child, item);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items.as_deref() else { return };
            for item in list {
                replace_null(items, item);
                fill(items, item);
            }
        }
        _ => {}
    }
}

/// Null where null is not allowed means absent.
fn drop_nulls(node: &Node, map: &mut Map<String, Value>) {
    map.retain(|name, item| {
        let declared = node.properties.get(name).or(node.additional.as_deref());
        !item.is_null()
            || declared.is_none_or(|child| child.nullable || child.kind == Type::Any || child.default.is_some())
    });
}

fn replace_null(node: &Node, value: &mut Value) {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        *value = default.clone();
    }
}
