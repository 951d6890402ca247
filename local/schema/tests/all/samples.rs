//! Schemas and objects the tests share.

use modelway_schema::Schema;
use modelway_schema::apply::{Manager, Operation};
use serde_json::{Value, json};

/// A built-in kind in small: list maps, sets, structs, quantities.
pub fn deployment() -> Schema {
    let container = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "image": {"type": "string"},
            "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "env": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
            },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort",
                "items": {"type": "object", "properties": {
                    "containerPort": {"type": "integer"}, "name": {"type": "string"},
                    "protocol": {"type": "string", "default": "TCP"}
                }}
            },
            "resources": {"type": "object", "properties": {
                "limits": {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]}}
            }}
        }
    });
    let selector = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}
    }});
    Schema::parse_builtin(&json!({"type": "object", "properties": {
        "spec": {"allOf": [{"type": "object", "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "paused": {"type": "boolean"},
            "selector": selector,
            "strategy": {
                "type": "object", "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object", "properties": {
                    "maxSurge": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
                }}}
            },
            "containers": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "items": container
            }
        }}]},
        "status": {"type": "object", "properties": {"readyReplicas": {"type": "integer"}}}
    }}))
    .unwrap()
}

/// A custom resource's schema with one property `spec`.
pub fn with_spec(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

/// An object with this spec.
pub fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec})
}

pub fn applier(name: &str) -> Manager {
    manager(name, Operation::Apply, None)
}

pub fn updater(name: &str) -> Manager {
    manager(name, Operation::Update, None)
}

pub fn manager(name: &str, operation: Operation, subresource: Option<&str>) -> Manager {
    Manager {
        name: name.to_owned(),
        operation,
        subresource: subresource.map(str::to_owned),
        api_version: "example.org/v1".to_owned(),
    }
}

/// What a manager owns according to the object; null when nothing.
pub fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|entry| entry["manager"] == manager).map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}
