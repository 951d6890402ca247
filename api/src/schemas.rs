//! Schemas of fields that no Rust type describes.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Any object, kept as it is: pod templates are checked by their own kind, not by ours.
pub fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Numbers by name.
pub fn numbers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "number" }
    })
}

/// Conditions as Kubernetes declares them: a map by type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "type": "string", "maxLength": 316, "description": "Type of the condition." },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds." },
                "reason": { "type": "string", "maxLength": 1024, "description": "One stable word for the cause." },
                "message": { "type": "string", "maxLength": 32768, "description": "The cause for people, and what to do." },
                "lastTransitionTime": { "type": "string", "format": "date-time", "description": "When the status last changed." },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0, "description": "Generation of the object that the condition speaks of." }
            }
        }
    })
}

/// A point in time.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}
