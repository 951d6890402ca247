//! Models: woken by themselves and their versions.

use std::collections::HashSet;

use modelway_plan::{Key, Kind, json as read};
use serde_json::Value;

use super::{kind_of, namespace_of};

/// Adds the Models whose plan may depend on the object.
pub fn woken_by(object: &Value, keys: &mut HashSet<Key>) {
    match kind_of(object) {
        Some(Kind::Model) => keys.extend(Key::of(object)),
        Some(Kind::ModelVersion) => {
            let model = read::text(object, "/spec/modelName");
            keys.insert(Key::new(Kind::Model, namespace_of(object), model));
        }
        _ => {}
    }
}
