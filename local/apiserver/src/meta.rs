//! Reading and writing `metadata` of untyped objects.

use serde_json::{Map, Value};

/// The name of the finalizer that makes a delete wait for dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The name of the finalizer that releases dependents before a delete.
pub const ORPHAN: &str = "orphan";

pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Current time as in `metadata.creationTimestamp`.
pub fn now() -> String {
    timestamp(k8s_openapi::jiff::Timestamp::now())
}

pub fn timestamp(time: k8s_openapi::jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The metadata map; made when absent. `None` when the object or its metadata is not a map.
pub fn map(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The map at a path; absent ones are made. `None` when something else is in the way, which validation reports.
pub fn map_at<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut place = object;
    for name in path {
        place = place.as_object_mut()?.entry(*name).or_insert(Value::Null);
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
    }
    place.as_object_mut()
}

/// Sets a metadata field, or removes it.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(metadata) = map(object) else { return };
    match value {
        Some(value) => drop(metadata.insert(field.to_owned(), value)),
        // Keeps the order of the others.
        None => drop(metadata.shift_remove(field)),
    }
}

/// Copies a top-level field from another object, or removes it when that has none.
pub fn copy(object: &mut Value, from: &Value, field: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(map.insert(field.to_owned(), value.clone())),
        None => drop(map.shift_remove(field)),
    }
}

/// Copies a metadata field from another object, or removes it when that has none.
pub fn copy_metadata(object: &mut Value, from: &Value, field: &str) {
    set(object, field, from["metadata"].get(field).cloned());
}

pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let value = (!finalizers.is_empty()).then(|| finalizers.iter().map(String::as_str).collect());
    set(object, "finalizers", value);
}

pub fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Terminating, released by all finalizers and not waiting for a grace period: nothing keeps the object.
pub fn is_released(object: &Value) -> bool {
    is_terminating(object)
        && finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && object["spec"]["finalizers"].as_array().is_none_or(|list| list.is_empty() || object["kind"] != "Namespace")
}

/// Equal but for the times of managed fields: such a write is not done.
pub fn same(left: &Value, right: &Value) -> bool {
    left == right || without_times(left) == without_times(right)
}

fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = map(&mut object) {
        metadata.remove("resourceVersion");
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
    }
    object
}
