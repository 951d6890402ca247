//! Hostile input: wrong types everywhere, deep nesting, great size. Nothing panics, everything ends.

use modelway_schema::Schema;
use modelway_schema::apply::{FieldSet, apply, track_update};
use modelway_schema::patch;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::samples::{applier, deployment, updater};

/// Any JSON, of names the schemas know.
pub fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..12).prop_map(Value::from),
        (-2.0_f64..2.0).prop_map(Value::from),
        "[a-zA-Z]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        "name",
        "replicas",
        "hosts",
        "predictors",
        "weight",
        "labels",
        "metadata",
        "spec",
        "finalizers",
        "managedFields",
        "containers",
        "env",
        "value",
        "template",
        "known",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "type",
        "properties",
        "items",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
        "rule",
        "allOf",
        "op",
        "path",
        "from",
        "strategy",
        "selector",
        "status",
        "fieldsV1",
        "operation",
        "apiVersion",
        "ownerReferences",
        "default",
    ];
    prop_oneof![9 => prop::sample::select(names.to_vec()).prop_map(str::to_owned), 1 => "[a-z]{1,3}"]
}

fn exercise(schema: &Schema, object: &Value, other: &Value) {
    let mut changed = object.clone();
    schema.prune(&mut changed);
    schema.default(&mut changed);
    let _ = schema.validate(&changed, Some(other));
    let _ = schema.validate(object, None);
    let _ = apply(schema, Some(other), object, &applier("a"), true, "2024-01-01T00:00:00Z");
    let _ = apply(schema, None, object, &applier("a"), false, "2024-01-01T00:00:00Z");
    let tracked = track_update(schema, Some(other), object.clone(), &updater("u"), "2024-01-01T00:00:00Z");
    let _ = apply(schema, Some(&tracked), other, &applier("a"), true, "2024-01-01T00:00:00Z");
    let _ = patch::strategic(schema, &mut object.clone(), other);
}

fn strict() -> Schema {
    Schema::parse(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "!has(self.spec) || self.spec.name != 'x'"}],
        "properties": {"spec": {"type": "object", "properties": {
            "name": {"type": "string"}, "hosts": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
        }}}}))
    .unwrap()
}

proptest! {
    #[test]
    fn wrong_types_everywhere_never_panic(object in any_json(), other in any_json()) {
        for schema in [deployment(), strict(), Schema::permissive()] {
            exercise(&schema, &object, &other);
            exercise(&schema, &json!({"metadata": object, "spec": other}), &json!({"spec": object, "metadata": other}));
        }
    }

    #[test]
    fn any_schema_is_parsed_or_refused(schema in any_json(), object in any_json()) {
        for wrapped in [schema.clone(), json!({"type": "object", "properties": {"spec": schema}})] {
            for parsed in [Schema::parse(&wrapped), Schema::parse_builtin(&wrapped)].into_iter().flatten() {
                exercise(&parsed, &object, &object);
            }
        }
    }

    #[test]
    fn any_text_is_a_rule_or_refused(text in "[a-z.()\\[\\]{}'\"+<>=&|!?:, 0-9\\\\$@#-]{0,40}") {
        let rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": text}]});
        if let Ok(schema) = Schema::parse(&rule) {
            let _ = schema.validate(&json!({"metadata": {"name": "x"}}), Some(&json!({})));
        }
    }

    #[test]
    fn any_fields_document_is_read_or_refused(document in any_json()) {
        let _ = FieldSet::decode(&document);
    }
}

fn nested(levels: usize, step: fn(Value) -> Value) -> Value {
    (0..levels).fold(json!(1), |inner, _| step(inner))
}

/// An object with one field; unlike the macro it moves the value instead of walking it.
fn field(name: &str, value: Value) -> Value {
    Value::Object([(name.to_owned(), value)].into_iter().collect())
}

#[test]
fn deep_nesting_is_refused_in_words() {
    let deep = field("spec", nested(1_000, |inner| field("a", inner)));
    for schema in [deployment(), strict(), Schema::permissive()] {
        exercise(&schema, &deep, &json!({}));
        exercise(&schema, &deep, &deep);
        let errors = schema.validate(&deep, None);
        assert!(errors[0].to_string().contains("nests deeper than"), "{errors:?}");
    }
    let lists = field("spec", nested(1_000, |inner| Value::Array(vec![inner])));
    exercise(&Schema::permissive(), &lists, &json!({}));
    assert!(FieldSet::decode(&nested(1_000, |inner| field("f:a", inner))).is_err());
}

#[test]
fn deep_schemas_are_refused_in_words() {
    let properties = nested(500, |inner| {
        let mut schema = field("properties", field("a", inner));
        schema["type"] = json!("object");
        schema
    });
    assert!(Schema::parse(&properties).unwrap_err().message.contains("nest at most"));
    let mut branches = field("not", nested(500, |inner| field("not", inner)));
    branches["type"] = json!("object");
    assert!(Schema::parse(&branches).unwrap_err().message.contains("nest at most"));
    for text in
        ["(".repeat(10_000), "!".repeat(10_000), "self".to_owned() + &".a".repeat(5_000), "1+".repeat(8_000) + "1"]
    {
        let rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": text}]});
        assert!(Schema::parse(&rule).is_err());
    }
}

#[test]
fn the_longest_chains_that_are_allowed_are_safe() {
    for text in ["!".repeat(600) + "true", "self.spec".to_owned() + &".a".repeat(599), "1+".repeat(598) + "1==1"] {
        let open = json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}});
        let rule =
            json!({"type": "object", "properties": {"spec": open}, "x-kubernetes-validations": [{"rule": text}]});
        if let Ok(schema) = Schema::parse(&rule) {
            let _ = schema.validate(&json!({"spec": {"a": 1}}), None);
        }
    }
}

#[test]
fn loops_within_loops_have_a_budget() {
    let schema = |rule: &str| {
        let spec = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]});
        Schema::parse(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
    };
    let long = json!({"spec": (0..5_000).collect::<Vec<i32>>()});
    let short = json!({"spec": [3, 2, 1]});
    for rule in ["self.all(x, self.exists(y, y == x))", "self.all(x, x in self)", "sets.contains(self, self)"] {
        let errors = schema(rule).validate(&long, None);
        assert_eq!(errors.len(), 1, "{rule}");
        assert!(errors[0].message.contains("call cost exceeds limit"), "{errors:?}");
        assert_eq!(schema(rule).validate(&short, None), []);
    }
    assert_eq!(schema("self.all(x, x >= 0)").validate(&long, None), []);
}

#[test]
fn ten_megabytes_are_handled() {
    let list: Vec<Value> = (0..2_000).map(|index| json!(format!("host-{index:0>490}"))).collect();
    let object = json!({"metadata": {"name": "x"}, "spec": {"name": 5, "hosts": list, "other": "y".repeat(9_000_000)}});
    exercise(&strict(), &object, &json!({"spec": {"hosts": ["a"]}}));
    let wrong: Vec<Value> = (0..100_000).map(Value::from).collect();
    let errors = strict().validate(&json!({"spec": {"hosts": wrong}}), None);
    assert!(errors.len() <= 201, "errors are bounded");
    let long = strict()
        .validate(&json!({"spec": {"name": "x", "hosts": ["y".repeat(9_000_000), "y".repeat(9_000_000)]}}), None);
    assert!(long.iter().all(|error| error.message.len() < 1_000), "messages are bounded");
}
