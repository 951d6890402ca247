//! `OpenAPI` v2: all definitions in one document. kubectl checks lists with it, and kinds that it does not know.
//!
//! Only definitions: which operations there are is said in version 3, which every client that asks for them reads.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, header};
use serde_json::{Map, Value, json};

use super::{REF_PREFIX, collect, component, component_name};
use crate::{builtin, kinds::ResourceKind};

/// The media type of the document as protobuf; kubectl asks for nothing else.
pub(super) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// What version 2 can say; the rest of a schema is left to the server.
const KEYWORDS: [&str; 10] = [
    "type",
    "format",
    "description",
    "default",
    "enum",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "pattern",
];

/// What the answer is called: no media type may hold an `@`.
pub(super) const PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether the client wants protobuf.
pub(super) fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').next().is_some_and(|media| media.trim() == PROTOBUF)
}

/// The document of everything that is served.
pub(super) fn document(kinds: &[Arc<ResourceKind>]) -> Value {
    let mut schemas = BTreeMap::new();
    for kind in kinds {
        let schema = component(kind);
        collect(&schema, &mut schemas);
        schemas.insert(component_name(kind), schema);
    }
    for (name, schema) in &mut schemas {
        builtin::describe(name, schema);
    }
    let definitions: Map<String, Value> = schemas.iter().map(|(name, schema)| (name.clone(), older(schema))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::VERSION},
        "paths": {},
        "definitions": definitions,
    })
}

/// A schema in the words of version 2.
fn older(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return json!({}) };
    if let Some(target) = reference(map) {
        return json!({"$ref": format!("#/definitions/{target}")});
    }
    // Quantities and the like: written as a text or as a number, which clients take for one another.
    if map.contains_key("oneOf") && map["oneOf"].as_array().into_iter().flatten().any(|one| one["type"] == "string") {
        return json!({"type": "string"});
    }
    let is_set = |name: &str| map.get(name) == Some(&Value::Bool(true));
    let is_open = is_set("nullable") || is_set("x-kubernetes-preserve-unknown-fields");
    let mut result = Map::new();
    for (name, value) in map {
        let wanted = KEYWORDS.contains(&name.as_str()) || name.starts_with("x-kubernetes-");
        let says_shape = !matches!(name.as_str(), "description" | "default") && !name.starts_with("x-");
        if !wanted || (is_open && says_shape) {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().map(|(name, one)| (name.clone(), older(one))).collect()
            }
            ("items" | "additionalProperties", value @ Value::Object(_)) => older(value),
            ("additionalProperties", _) => continue,
            (_, value) => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    if result.get("type").is_some_and(|kind| kind == "array") && !result.contains_key("items") {
        result.shift_remove("type");
    }
    Value::Object(result)
}

fn reference(map: &Map<String, Value>) -> Option<&str> {
    let target = map.get("$ref").or_else(|| map.get("allOf")?.get(0)?.get("$ref"))?;
    target.as_str()?.strip_prefix(REF_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin_kinds;

    #[test]
    fn every_reference_leads_somewhere() {
        let kinds: Vec<_> = builtin_kinds().into_iter().map(Arc::new).collect();
        let document = document(&kinds);
        for piece in document.to_string().split("\"$ref\":\"").skip(1) {
            let target = piece.split('"').next().and_then(|target| target.strip_prefix("#/definitions/")).unwrap();
            assert!(document["definitions"][target].is_object(), "{target}");
        }
        let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        assert_eq!(document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"], "string");
    }

    #[test]
    fn places_that_keep_everything_say_nothing_of_their_shape() {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}});
        assert_eq!(older(&open), json!({"x-kubernetes-preserve-unknown-fields": true}));
        assert_eq!(older(&json!({"type": "array"})), json!({}));
    }
}
