//! What a structural schema may say.

use modelway_schema::Schema;
use serde_json::{Value, json};

use crate::samples::with_spec;

fn refused(schema: &Value) -> String {
    Schema::parse(schema).unwrap_err().to_string()
}

fn spec_refused(spec: &Value) -> String {
    refused(&with_spec(spec))
}

#[test]
fn root_must_be_an_object() {
    assert_eq!(refused(&json!({})), "type: Required value: must not be empty at the root");
    assert_eq!(refused(&json!({"type": "string"})), "type: Invalid value: must be object at the root");
    assert_eq!(refused(&json!("nonsense")), ": Invalid value: a schema must be an object");
}

#[test]
fn every_field_needs_a_type() {
    assert_eq!(
        spec_refused(&json!({"description": "untyped"})),
        "properties[spec].type: Required value: must not be empty for specified object fields"
    );
    assert_eq!(
        spec_refused(&json!({"type": "array", "items": {}})),
        "properties[spec].items.type: Required value: must not be empty for specified array items"
    );
    assert_eq!(spec_refused(&json!({"type": "array"})), "properties[spec].items: Required value: must be specified");
    assert!(spec_refused(&json!({"type": "text"})).starts_with("properties[spec].type: Unsupported value: \"text\""));
    Schema::parse(&with_spec(&json!({"x-kubernetes-preserve-unknown-fields": true}))).unwrap();
    Schema::parse(&with_spec(&json!({"x-kubernetes-int-or-string": true}))).unwrap();
}

#[test]
fn what_is_not_structural_is_refused_with_its_place() {
    for (spec, place) in [
        (
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            ".additionalProperties",
        ),
        (json!({"type": "object", "additionalProperties": false}), ".additionalProperties"),
        (json!({"$ref": "#/x"}), ".$ref"),
        (json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}), ".uniqueItems"),
        (json!({"type": "array", "items": [{"type": "string"}]}), ".items"),
        (json!({"type": "object", "anyOf": [{"type": "object"}]}), ".anyOf[0].type"),
        (json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}), ".anyOf[0].properties[a]"),
        (json!({"type": "object", "not": {"nullable": true}}), ".not.nullable"),
        (json!({"type": "string", "pattern": "("}), ".pattern"),
        (json!({"type": "string", "maxLength": -1}), ".maxLength"),
        (json!({"type": "string", "x-kubernetes-list-type": "set"}), ".type"),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            ".x-kubernetes-preserve-unknown-fields",
        ),
        (json!({"type": "object", "x-kubernetes-embedded-resource": true}), ".properties"),
        (json!({"type": "string", "default": 5}), ".default"),
        (json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}), ".default"),
    ] {
        let error = Schema::parse(&with_spec(&spec)).unwrap_err();
        assert_eq!(error.path, format!("properties[spec]{place}"), "{spec}");
    }
}

#[test]
fn list_map_keys_must_be_there_in_every_element() {
    let list = |item: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let named = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    assert!(spec_refused(&list(named.clone())).contains("must be required or have a default"));
    assert!(spec_refused(&list(json!({"type": "object"}))).contains("must be a property of the items"));
    let mut required = named.clone();
    required["required"] = json!(["name"]);
    Schema::parse(&with_spec(&list(required))).unwrap();
    let mut defaulted = named;
    defaulted["properties"]["name"]["default"] = json!("main");
    Schema::parse(&with_spec(&list(defaulted))).unwrap();
    let sets = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}});
    assert!(spec_refused(&sets).contains("elements of a set must be atomic"));
    let keyless = json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}});
    assert!(spec_refused(&keyless).starts_with("properties[spec].x-kubernetes-list-map-keys: Required value"));
}

#[test]
fn only_the_name_in_metadata_can_be_restricted() {
    let schema = |metadata: Value| json!({"type": "object", "properties": {"metadata": metadata}});
    let labels = schema(json!({"type": "object", "properties": {"labels": {"type": "object"}}}));
    assert!(refused(&labels).contains("only name and generateName of metadata can be restricted"));
    let name = schema(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}));
    let schema = Schema::parse(&name).unwrap();
    assert_eq!(schema.validate(&json!({"metadata": {"name": "long"}}), None).len(), 1);
    assert_eq!(schema.validate(&json!({"metadata": {"name": "abc"}}), None).len(), 0);
}

#[test]
fn published_schemas_of_built_in_kinds_parse() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}], "default": {}},
        "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        "raw": {"type": "object"}
    }});
    let schema = Schema::parse_builtin(&schema).unwrap();
    let mut object = json!({"spec": {"a": "x", "b": 1}, "quantity": "1Gi", "port": "http", "raw": {"free": 1}});
    assert_eq!(schema.prune(&mut object), ["spec.b"]);
    assert_eq!(schema.validate(&object, None), []);
    assert_eq!(schema.validate(&json!({"quantity": true}), None).len(), 2);
    assert_eq!(schema.validate(&json!({"port": true}), None).len(), 1);
}
