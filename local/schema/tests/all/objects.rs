//! Defaulting, pruning and validation of objects.

use modelway_schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hostile::any_json;
use crate::samples::{object, with_spec};

fn schema(spec: &Value) -> Schema {
    Schema::parse(&with_spec(spec)).unwrap()
}

/// The errors of an object with this spec.
fn errors(spec_schema: &Value, spec: &Value) -> Vec<String> {
    schema(spec_schema).validate(&object(spec), None).iter().map(ToString::to_string).collect()
}

fn serving() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z]+$"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10, "default": 1},
        "framework": {"type": "string", "enum": ["ONNX", "Triton"]},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
        "port": {"x-kubernetes-int-or-string": true},
        "note": {"type": "string", "nullable": true, "default": "none"},
        "labels": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "hosts": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "predictors": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "weight": {"type": "integer", "default": 100}
            }}
        },
        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string"}}}
        }}
    }})
}

#[test]
fn errors_read_as_in_kubernetes() {
    for (spec, expected) in [
        (json!({}), "spec.name: Required value"),
        (
            json!({"name": "a", "replicas": "two"}),
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
        ),
        (
            json!({"name": "a", "replicas": -1}),
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
        ),
        (
            json!({"name": "a", "replicas": 11}),
            "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
        ),
        (
            json!({"name": "a", "framework": "Torch"}),
            r#"spec.framework: Unsupported value: "Torch": supported values: "ONNX", "Triton""#,
        ),
        (json!({"name": "a", "ratio": 0}), "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"),
        (json!({"name": "A"}), r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'"#),
        (json!({"name": "abcdefghi"}), "spec.name: Too long: may not be more than 8 bytes"),
        (
            json!({"name": "a", "port": true}),
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ),
        (json!({"name": "a", "hosts": ["x", "y", "x"]}), r#"spec.hosts[2]: Duplicate value: "x""#),
        (json!({"name": "a", "hosts": ["a", "b", "c", "d"]}), "spec.hosts: Too many: 4: must have at most 3 items"),
        (
            json!({"name": "a", "predictors": [{"name": "p"}, {"name": "p", "weight": 2}]}),
            r#"spec.predictors[1]: Duplicate value: {"name":"p"}"#,
        ),
        (
            json!({"name": "a", "labels": {"k": 1}}),
            r#"spec.labels.k: Invalid value: "integer": spec.labels.k in body must be of type string: "integer""#,
        ),
    ] {
        assert_eq!(errors(&serving(), &spec), [expected], "{spec}");
    }
    assert_eq!(errors(&serving(), &json!({"name": "a", "replicas": 2.0, "port": "http", "note": null})), [""; 0]);
}

#[test]
fn a_cause_names_reason_field_and_message() {
    let error = schema(&serving()).validate(&object(&json!({})), None).remove(0);
    let cause = error.cause();
    assert_eq!(cause.reason.as_deref(), Some("FieldValueRequired"));
    assert_eq!(cause.field.as_deref(), Some("spec.name"));
    assert_eq!(cause.message.as_deref(), Some("Required value"));
}

#[test]
fn combinations_of_schemas_are_checked() {
    let one = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let none = errors(&one, &json!({}));
    assert_eq!(
        none[0],
        r#"spec: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#
    );
    assert_eq!(none[1], "spec.a: Required value");
    assert!(errors(&one, &json!({"a": "", "b": ""}))[0].contains("Found 2 valid alternatives"));
    assert_eq!(errors(&one, &json!({"b": ""})).len(), 0);
    let not = json!({"type": "integer", "not": {"enum": [3]}, "anyOf": [{"minimum": 10}, {"maximum": 5}]});
    assert_eq!(errors(&not, &json!(4)).len(), 0);
    assert!(errors(&not, &json!(3))[0].ends_with("must not validate the schema (not)"));
    assert!(errors(&not, &json!(7))[0].ends_with("must validate at least one schema (anyOf)"));
}

#[test]
fn a_broken_rule_on_an_unchanged_value_is_forgiven_on_update() {
    let schema = schema(&serving());
    let old = object(&json!({"name": "NOT OK", "replicas": 3}));
    let new = object(&json!({"name": "NOT OK", "replicas": 4}));
    assert_eq!(schema.validate(&new, Some(&old)), []);
    assert!(!schema.validate(&new, None).is_empty());
}

#[test]
fn defaults_fill_what_is_absent() {
    let mut thing =
        object(&json!({"name": null, "predictors": [{"name": "a"}, {"name": "b", "weight": 5}], "note": null}));
    schema(&serving()).default(&mut thing);
    assert_eq!(
        thing["spec"],
        json!({"replicas": 1, "note": null, "predictors": [{"name": "a", "weight": 100}, {"name": "b", "weight": 5}]})
    );
    // Only what is there is filled: an absent object without a default stays absent.
    let mut empty = json!({"metadata": {}});
    schema(&serving()).default(&mut empty);
    assert_eq!(empty, json!({"metadata": {}}));
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let mut thing = object(&json!({
        "name": "a", "foo": 1, "predictors": [{"name": "a", "bar": 2}],
        "template": {"any": {"thing": 1}, "known": {"a": "x", "b": "y"}}, "labels": {"kept": "x"}
    }));
    thing["metadata"]["bogus"] = json!(1);
    thing["extra"] = json!(true);
    let mut dropped = schema(&serving()).prune(&mut thing);
    dropped.sort();
    assert_eq!(dropped, ["extra", "metadata.bogus", "spec.foo", "spec.predictors[0].bar", "spec.template.known.b"]);
    assert_eq!(
        thing["spec"],
        json!({"name": "a", "predictors": [{"name": "a"}], "template": {"any": {"thing": 1}, "known": {"a": "x"}},
            "labels": {"kept": "x"}})
    );
}

#[test]
fn embedded_resources_keep_what_every_resource_has() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"data": {"type": "string"}}});
    let mut thing =
        object(&json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "zzz": 1}, "data": "d", "no": 1}));
    assert_eq!(schema(&embedded).prune(&mut thing), ["spec.no", "spec.metadata.zzz"]);
}

#[test]
fn the_permissive_schema_keeps_and_allows_everything() {
    let mut thing = object(&json!({"a": [1, {"b": null}]}));
    thing["metadata"]["odd"] = json!({"x": 1});
    let before = thing.clone();
    let schema = Schema::permissive();
    assert_eq!(schema.prune(&mut thing), [""; 0]);
    schema.default(&mut thing);
    assert_eq!(thing, before);
    assert_eq!(schema.validate(&thing, None), []);
}

proptest! {
    #[test]
    fn prune_and_default_are_idempotent(spec in any_json()) {
        let schema = schema(&serving());
        let mut once = object(&spec);
        schema.prune(&mut once);
        schema.default(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }
}
