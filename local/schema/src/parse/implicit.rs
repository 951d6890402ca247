//! What every resource has without saying so: apiVersion, kind and metadata.

use serde_json::{Map, Value, json};

use super::keyword::object;
use super::{Mode, Place, node};
use crate::SchemaError;
use crate::node::{Node, Type};

/// The schema that keeps everything, with the merge rules of metadata.
pub(crate) fn permissive() -> Node {
    let place = Place::root(Mode::Builtin);
    let mut root = Node { kind: Type::Object, preserve: true, embedded: true, ..Node::default() };
    let mut metadata = metadata(&place).expect("the schema of metadata is a constant and a test parses it");
    keep_unknown(&mut metadata);
    root.properties.insert("metadata".to_owned(), metadata);
    root
}

fn keep_unknown(node: &mut Node) {
    node.preserve = true;
    node.properties.values_mut().for_each(keep_unknown);
    if let Some(items) = node.items.as_deref_mut() {
        keep_unknown(items);
    }
}

/// Gives a resource's node its implicit fields.
pub(super) fn complete(map: &Map<String, Value>, into: &mut Node, place: &Place) -> Result<(), SchemaError> {
    if !into.embedded || (into.kind != Type::Object && into.kind != Type::Any) {
        return Ok(());
    }
    for name in ["apiVersion", "kind"] {
        into.properties.entry(name.to_owned()).or_insert_with(|| Node { kind: Type::String, ..Node::default() });
    }
    let mut known = metadata(&Place::root(Mode::Builtin))?;
    if let Some(own) = object(map, "properties", place)?.and_then(|properties| properties.get("metadata")) {
        take_over(own, &mut known, &place.below("properties[metadata]"))?;
    }
    into.properties.insert("metadata".to_owned(), known);
    Ok(())
}

/// A custom resource may bound its name and generateName, and nothing else of its metadata.
fn take_over(own: &Value, known: &mut Node, place: &Place) -> Result<(), SchemaError> {
    let Some(map) = own.as_object() else {
        return Err(place.error("", "Invalid value: a schema must be an object"));
    };
    let own = node(own, place)?;
    if place.mode == Mode::Builtin {
        return Ok(());
    }
    if own.kind != Type::Object && map.contains_key("type") {
        return Err(place.error("type", "Invalid value: must be object"));
    }
    let top = place.depth == 1;
    for (name, field) in own.properties {
        match (name.as_str(), known.properties.get_mut(&name)) {
            ("name" | "generateName", Some(into)) => into.checks = field.checks,
            (_, Some(_)) if !top => {}
            _ => {
                let message = "Forbidden: only name and generateName of metadata can be restricted";
                return Err(place.error(&format!("properties[{name}]"), message));
            }
        }
    }
    known.checks.required.extend(own.checks.required);
    Ok(())
}

fn metadata(place: &Place) -> Result<Node, SchemaError> {
    node(&metadata_schema(), &Place { depth: 1, ..place.clone() })
}

fn metadata_schema() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time", "nullable": true});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "uid": text, "selfLink": text,
        "resourceVersion": text,
        "generation": {"type": "integer", "format": "int64"},
        "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64", "nullable": true},
        "labels": texts, "annotations": texts,
        "finalizers": {
            "type": "array", "items": text,
            "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"
        },
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
            "items": {
                "type": "object", "x-kubernetes-map-type": "atomic",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": text, "kind": text, "name": text, "uid": text,
                    "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}
                }
            }
        },
        "managedFields": {
            "type": "array", "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "properties": {
                "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
                "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "subresource": text
            }}
        }
    }})
}
