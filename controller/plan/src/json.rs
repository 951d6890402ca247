//! Small readers of Kubernetes objects as JSON. Absent and mistyped read alike: as nothing.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The string at a JSON pointer, empty when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a JSON pointer, 0 when there is none.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The items of the array at a JSON pointer.
pub fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The time at a JSON pointer.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `name` of a part such as a container or a volume.
pub fn name_of(part: &Value) -> &str {
    text(part, "/name")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// An annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key)?.as_str()
}

/// A label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key)?.as_str()
}

/// Whether the object is on its way out.
pub fn is_deleted(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether the object's controller has that UID.
pub fn is_controlled_by(object: &Value, owner: &str) -> bool {
    !owner.is_empty()
        && items(object, "/metadata/ownerReferences")
            .any(|reference| reference["uid"] == owner && reference["controller"] == true)
}

/// Whether any owner has that UID.
pub fn is_owned_by(object: &Value, owner: &str) -> bool {
    !owner.is_empty() && items(object, "/metadata/ownerReferences").any(|reference| reference["uid"] == owner)
}

/// The condition of that type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").find(|condition| condition["type"] == type_)
}

/// Whether the condition of that type is `True`.
pub fn condition_holds(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

/// Hash of a value, the same for every order of keys; 16 hexadecimal characters.
pub fn hash(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    hex::encode(&Sha256::digest(sorted.to_string())[..8])
}

/// Whether `live` has everything that `desired` says. The server may have added fields, never list items.
pub fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (_, Value::Null) => live.is_null(),
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| covers(live.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| covers(live, desired))
        }
        (Value::Null, Value::Object(desired)) => desired.values().all(|value| covers(&Value::Null, value)),
        (Value::Null, Value::Array(desired)) => desired.is_empty(),
        // A server may write 1.0 back as 1.
        (Value::Number(live), Value::Number(desired)) => live == desired || live.as_f64() == desired.as_f64(),
        (live, desired) => live == desired,
    }
}

/// Whether both say the same.
pub fn is_same(a: &Value, b: &Value) -> bool {
    covers(a, b) && covers(b, a)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hash_ignores_the_order_of_keys() {
        assert_eq!(hash(&json!({"a": 1, "b": {"c": 2, "d": 3}})), hash(&json!({"b": {"d": 3, "c": 2}, "a": 1})));
        assert_ne!(hash(&json!({"a": 1})), hash(&json!({"a": 2})));
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let live =
            json!({"spec": {"containers": [{"name": "a", "imagePullPolicy": "Always"}], "dnsPolicy": "ClusterFirst"}});
        assert!(covers(&live, &json!({"spec": {"containers": [{"name": "a", "env": []}], "nodeName": null}})));
        assert!(!covers(&live, &json!({"spec": {"containers": [{"name": "b"}]}})));
        assert!(!covers(&live, &json!({"spec": {"containers": []}})));
    }

    #[test]
    fn absent_reads_as_nothing() {
        let object = json!({"metadata": {"name": 3}});
        assert_eq!((name(&object), uid(&object), number(&object, "/status/replicas")), ("", "", 0));
        assert_eq!(annotation(&object, "a"), None);
    }
}
