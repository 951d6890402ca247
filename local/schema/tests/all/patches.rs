//! The three patch languages.

use modelway_schema::Schema;
use modelway_schema::patch::{self, PatchError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hostile::any_json;
use crate::samples::deployment;

/// The examples of RFC 7386, appendix A.
#[test]
fn merge_patch_gives_the_published_answers() {
    for (target, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let mut result = target.clone();
        patch::merge(&mut result, &patch);
        assert_eq!(result, expected, "{target} {patch}");
    }
}

proptest! {
    #[test]
    fn merge_patch_is_idempotent(target in any_json(), patch in any_json()) {
        let mut once = target;
        patch::merge(&mut once, &patch);
        let mut twice = once.clone();
        patch::merge(&mut twice, &patch);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_empty_merge_patch_changes_no_object(map in any_json().prop_filter("an object", Value::is_object)) {
        let mut target = map.clone();
        patch::merge(&mut target, &json!({}));
        prop_assert_eq!(target, map);
    }

    #[test]
    fn patches_never_panic(target in any_json(), patch in any_json()) {
        let _ = patch::json(&mut target.clone(), &patch);
        for schema in [deployment(), Schema::permissive()] {
            let _ = patch::strategic(&schema, &mut target.clone(), &patch);
            let _ = patch::strategic(&schema, &mut json!({"spec": target.clone()}), &json!({"spec": patch.clone()}));
        }
    }
}

#[test]
fn json_patch_applies_all_operations_or_none() {
    let start = json!({"spec": {"replicas": 1, "args": ["a"]}});
    let mut target = start.clone();
    let good = json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 2},
        {"op": "add", "path": "/spec/args/-", "value": "b"},
        {"op": "move", "from": "/spec/args/0", "path": "/spec/first"},
        {"op": "copy", "from": "/spec/first", "path": "/spec/again"},
        {"op": "remove", "path": "/spec/first"}
    ]);
    patch::json(&mut target, &good).unwrap();
    assert_eq!(target, json!({"spec": {"replicas": 2, "args": ["b"], "again": "a"}}));

    let mut target = start.clone();
    let bad = json!([
        {"op": "replace", "path": "/spec/replicas", "value": 2}, {"op": "test", "path": "/spec/replicas", "value": 1}
    ]);
    let error = patch::json(&mut target, &bad).unwrap_err();
    let text = "test operation does not apply at path \"/spec/replicas\": the value did not match";
    assert_eq!(error, PatchError::Unprocessable(text.into()));
    assert_eq!(target, start);
}

#[test]
fn json_patch_errors_say_what_is_wrong() {
    let mut target = json!({"a": {}});
    for (patch, malformed) in [
        (json!({}), true),
        (json!([{"op": "jump", "path": "/a"}]), true),
        (json!([{"op": "add", "path": "no slash", "value": 1}]), true),
        (json!([{"op": "remove", "path": "/b"}]), false),
        (json!([{"op": "replace", "path": "/a/b/c", "value": 1}]), false),
        (json!([{"op": "move", "from": "/a", "path": "/a/b"}]), false),
    ] {
        let error = patch::json(&mut target, &patch).unwrap_err();
        assert_eq!(matches!(error, PatchError::Malformed(_)), malformed, "{error}");
    }
}

#[test]
fn json_patch_cannot_double_an_object_into_exhaustion() {
    let mut target = json!({"a": "x".repeat(1000)});
    let copies: Vec<Value> =
        (0..64).map(|index| json!({"op": "copy", "from": "", "path": format!("/c{index}")})).collect();
    let error = patch::json(&mut target, &Value::Array(copies)).unwrap_err();
    assert!(error.to_string().contains("exceed"), "{error}");
}

fn strategic(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mut result = target.clone();
    patch::strategic(&deployment(), &mut result, patch).map(|()| result)
}

fn live() -> Value {
    json!({"metadata": {"finalizers": ["a"], "labels": {"x": "1"}}, "spec": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "containers": [
            {"name": "web", "image": "web:1", "args": ["x"], "env": [{"name": "A", "value": "1"}]},
            {"name": "side", "image": "side:1"}
        ]
    }})
}

#[test]
fn lists_merge_by_their_key() {
    let patched = strategic(
        &live(),
        &json!({"spec": {"containers": [
            {"name": "web", "image": "web:2", "args": ["y"], "env": [{"name": "B", "value": "2"}]},
            {"name": "new", "image": "new:1"}
        ]}}),
    )
    .unwrap();
    assert_eq!(
        patched["spec"]["containers"],
        json!([
            {"name": "web", "image": "web:2", "args": ["y"], "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]},
            {"name": "new", "image": "new:1"},
            {"name": "side", "image": "side:1"}
        ])
    );
}

#[test]
fn scalars_unite_and_null_deletes() {
    let patch =
        json!({"metadata": {"finalizers": ["b", "a"], "labels": {"x": null, "y": "2"}}, "spec": {"replicas": null}});
    let patched = strategic(&live(), &patch).unwrap();
    assert_eq!(patched["metadata"], json!({"finalizers": ["b", "a"], "labels": {"y": "2"}}));
    assert_eq!(patched["spec"].get("replicas"), None);
}

#[test]
fn patch_directives_delete_and_replace() {
    let patch = json!({"spec": {"containers": [{"name": "web", "$patch": "delete"}]}});
    assert_eq!(strategic(&live(), &patch).unwrap()["spec"]["containers"], json!([{"name": "side", "image": "side:1"}]));
    let patch = json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "only"}]}});
    assert_eq!(strategic(&live(), &patch).unwrap()["spec"]["containers"], json!([{"name": "only"}]));
    let patch = json!({"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}});
    assert_eq!(strategic(&live(), &patch).unwrap()["spec"]["strategy"], json!({"type": "Recreate"}));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(strategic(&live(), &patch).unwrap()["metadata"]["finalizers"], json!([]));
}

#[test]
fn retain_keys_clears_the_other_branch() {
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(strategic(&live(), &patch).unwrap()["spec"]["strategy"], json!({"type": "Recreate"}));
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["other"], "type": "Recreate"}}});
    assert!(matches!(strategic(&live(), &patch), Err(PatchError::Malformed(_))));
}

#[test]
fn set_element_order_orders_what_it_names() {
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "side"}, {"name": "web"}],
        "containers": [{"name": "new", "image": "new:1"}]
    }});
    let patched = strategic(&live(), &patch).unwrap();
    let names: Vec<&Value> = patched["spec"]["containers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["new", "side", "web"]);
    assert!(patched["spec"].get("$setElementOrder/containers").is_none());
}

#[test]
fn strategic_errors_say_what_is_wrong() {
    for patch in [
        json!([]),
        json!({"spec": {"containers": [{"image": "nameless"}]}}),
        json!({"spec": {"containers": ["text"]}}),
        json!({"spec": {"$patch": "explode"}}),
        json!({"spec": {"strategy": {"$retainKeys": "type"}}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
    ] {
        let error = strategic(&live(), &patch).unwrap_err();
        assert!(
            error.to_string().starts_with("strategic merge patch: ") || error.to_string().starts_with("a strategic"),
            "{error}"
        );
    }
}

#[test]
fn directives_do_not_reach_a_new_object() {
    let patch = json!({"spec": {"containers": [
        {"name": "a", "$retainKeys": ["name", "env"], "env": [{"name": "X", "$patch": "delete"}, {"name": "Y"}], "image": null}
    ]}});
    let patched = strategic(&json!({}), &patch).unwrap();
    assert_eq!(patched, json!({"spec": {"containers": [{"name": "a", "env": [{"name": "Y"}]}]}}));
}
