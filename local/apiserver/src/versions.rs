//! One stored object under the several names it is served by.

use serde_json::Value;

use crate::builtin;
use crate::kinds::ResourceKind;
use crate::store::Object;

/// The resource that stores a kind: `events.k8s.io` shows the core group's events.
pub fn stored_resource(kind: &ResourceKind) -> String {
    if is_new_event(kind) { "events".to_owned() } else { kind.resource() }
}

/// The stored object as the kind shows it.
pub fn shown(object: &Object, kind: &ResourceKind) -> Value {
    let mut value = object.value();
    let api_version = kind.api_version();
    if object.api_version == api_version {
        return value;
    }
    if is_new_event(kind) {
        builtin::from_core_event(&mut value);
    } else {
        value["apiVersion"] = api_version.into();
    }
    value
}

/// The value to store for one that the kind shows.
pub fn stored(mut value: Value, kind: &ResourceKind) -> Value {
    if is_new_event(kind) {
        builtin::to_core_event(&mut value);
    }
    value
}

fn is_new_event(kind: &ResourceKind) -> bool {
    kind.group == "events.k8s.io"
}
