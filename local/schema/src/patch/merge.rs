//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges the patch into the target: objects field by field, null removes, all else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
    for (name, item) in patch {
        if item.is_null() {
            // The order of the other fields stays as it was.
            map.shift_remove(name);
        } else {
            merge(map.entry(name.clone()).or_insert(Value::Null), item);
        }
    }
}
