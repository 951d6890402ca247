//! Server-side apply: laws that hold for all objects.

use modelway_schema::apply::{FieldSet, apply, track_update};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hostile::any_json;
use crate::samples::{applier, deployment, object, updater};

const FIRST: &str = "2024-01-01T00:00:00Z";
const LATER: &str = "2024-01-02T00:00:00Z";

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

/// Specs of the sample kind, with every sort of list and map.
fn spec() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map(word(&["A", "B", "C"]), word(&["x", "y"]), 0..3)
        .prop_map(|env| env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>());
    let container = (
        prop::option::of(word(&["x", "y"])),
        prop::option::of(env),
        prop::option::of(prop::collection::vec(word(&["x", "y"]), 0..3)),
        prop::option::of(prop::collection::btree_map(word(&["cpu", "gpu"]), 1..3_i32, 0..2)),
    )
        .prop_map(|(image, env, args, limits)| {
            some(&[
                ("image", image.map(Value::from)),
                ("env", env.map(Value::from)),
                ("args", args.map(Value::from)),
                ("resources", limits.map(|limits| json!({"limits": limits}))),
            ])
        });
    let containers = prop::collection::btree_map(word(&["a", "b", "c", "d"]), container, 0..4).prop_map(|containers| {
        let named = |(name, mut container): (String, Value)| {
            container["name"] = json!(name);
            container
        };
        containers.into_iter().map(named).collect::<Vec<_>>()
    });
    let labels = prop::collection::btree_map(word(&["a", "b", "c"]), word(&["x", "y"]), 0..3);
    (
        prop::option::of(0..3_i32),
        prop::option::of(any::<bool>()),
        prop::option::of(containers),
        prop::option::of(labels),
    )
        .prop_map(|(replicas, paused, containers, labels)| {
            some(&[
                ("replicas", replicas.map(Value::from)),
                ("paused", paused.map(Value::from)),
                ("containers", containers.map(Value::from)),
                ("selector", labels.map(|labels| json!({"matchLabels": labels}))),
            ])
        })
}

fn some(fields: &[(&str, Option<Value>)]) -> Value {
    let present = |(name, value): &(&str, Option<Value>)| value.clone().map(|value| ((*name).to_owned(), value));
    Value::Object(fields.iter().filter_map(present).collect())
}

fn run(live: Option<&Value>, spec: &Value, by: &str, now: &str) -> Value {
    apply(&deployment(), live, &object(spec), &applier(by), true, now).unwrap()
}

/// Empty containers may stay behind where there was something to merge with.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let full = map.iter().map(|(name, item)| (name.clone(), without_empty(item)));
            Value::Object(full.filter(|(_, item)| !is_empty(item)).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_empty).collect()),
        scalar => scalar.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn apply_is_idempotent(first in spec(), second in spec(), third in spec()) {
        let live = run(None, &first, "a", FIRST);
        let live = run(Some(&live), &second, "b", FIRST);
        let once = run(Some(&live), &third, "a", FIRST);
        let twice = run(Some(&once), &third, "a", LATER);
        prop_assert_eq!(once.to_string(), twice.to_string());
    }

    #[test]
    fn a_lone_manager_gets_what_it_applies(first in spec(), second in spec()) {
        let live = run(None, &first, "a", FIRST);
        let live = run(Some(&live), &second, "a", LATER);
        prop_assert_eq!(without_empty(&json!([live["spec"]])), without_empty(&json!([second])));
    }

    #[test]
    fn what_another_manager_applied_stays(first in spec(), second in spec()) {
        let alone = run(None, &second, "b", FIRST);
        let live = run(None, &first, "a", FIRST);
        let live = run(Some(&live), &second, "b", FIRST);
        let live = run(Some(&live), &json!({}), "a", LATER);
        let (left, wanted) = (without_empty(&json!({"spec": live["spec"]})), without_empty(&json!({"spec": alone["spec"]})));
        let sort = |value: &Value| { let mut value = value.clone();
            if let Some(list) = value.pointer_mut("/spec/containers").and_then(Value::as_array_mut) {
                list.sort_by_key(|one| one["name"].to_string());
                for one in list { if let Some(env) = one.get_mut("env").and_then(Value::as_array_mut) {
                    env.sort_by_key(|one| one["name"].to_string());
                } }
            }
            value };
        prop_assert_eq!(sort(&left), sort(&wanted));
    }

    #[test]
    fn an_apply_without_force_never_changes_a_value_others_own(first in spec(), second in spec()) {
        let live = run(None, &first, "a", FIRST);
        if let Ok(result) = apply(&deployment(), Some(&live), &object(&second), &applier("b"), false, LATER) {
            let again = apply(&deployment(), Some(&result), &object(&first), &applier("a"), false, LATER);
            prop_assert!(again.is_ok(), "{:?}", again);
        }
    }

    #[test]
    fn fields_survive_encoding(first in spec(), second in spec()) {
        let live = run(None, &first, "a", FIRST);
        let live = track_update(&deployment(), Some(&live), object(&second), &updater("u"), LATER);
        for entry in live["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let fields = FieldSet::decode(&entry["fieldsV1"]).unwrap();
            prop_assert_eq!(&fields.encode(), &entry["fieldsV1"]);
            prop_assert!(!fields.is_empty());
        }
    }

    #[test]
    fn decoding_twice_is_decoding_once(document in any_json()) {
        if let Ok(fields) = FieldSet::decode(&document) {
            prop_assert_eq!(FieldSet::decode(&fields.encode()).unwrap(), fields);
        }
    }

    #[test]
    fn tracking_keeps_the_object(first in spec(), second in spec()) {
        let live = track_update(&deployment(), None, object(&first), &updater("a"), FIRST);
        let new = object(&second);
        let mut tracked = track_update(&deployment(), Some(&live), new.clone(), &updater("b"), LATER);
        tracked["metadata"].as_object_mut().unwrap().remove("managedFields");
        prop_assert_eq!(tracked, new);
    }
}
