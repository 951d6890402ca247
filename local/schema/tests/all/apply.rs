//! Server-side apply and managed fields: known answers.

use modelway_schema::Schema;
use modelway_schema::apply::{ApplyError, Conflict, Manager, Operation, apply, track_update};
use serde_json::{Value, json};

use crate::samples::{applier, deployment, manager, object, owned, updater};

const FIRST: &str = "2024-01-01T00:00:00Z";
const LATER: &str = "2024-01-02T00:00:00Z";

fn applied(live: Option<&Value>, spec: &Value, by: &Manager) -> Value {
    apply(&deployment(), live, &object(spec), by, false, FIRST).unwrap()
}

fn forced(live: &Value, spec: &Value, by: &Manager) -> Value {
    apply(&deployment(), Some(live), &object(spec), by, true, LATER).unwrap()
}

fn refused(live: &Value, spec: &Value, by: &Manager) -> Vec<Conflict> {
    conflicts(apply(&deployment(), Some(live), &object(spec), by, false, LATER))
}

fn conflicts(result: Result<Value, ApplyError>) -> Vec<Conflict> {
    let refused = result.unwrap_err();
    let ApplyError::Conflicts(conflicts) = refused else { unreachable!("expected conflicts, got {refused}") };
    conflicts
}

fn web(image: &str) -> Value {
    json!({"name": "web", "image": image})
}

#[test]
fn create_by_apply_owns_what_is_applied() {
    let mut thing = object(&json!({
        "replicas": 3, "selector": {"matchLabels": {"app": "x"}},
        "containers": [{"name": "web", "image": "web:1", "args": ["a", "b"], "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}}}]
    }));
    thing["metadata"]["labels"] = json!({"app": "x"});
    thing["metadata"]["finalizers"] = json!(["example.org/hold"]);
    thing["metadata"]["resourceVersion"] = json!("5");
    let created = apply(&deployment(), None, &thing, &applier("me"), false, FIRST).unwrap();
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "me", "operation": "Apply", "apiVersion": "example.org/v1", "time": FIRST, "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {"v:\"example.org/hold\"": {}}},
                "f:spec": {
                    "f:replicas": {}, "f:selector": {},
                    "f:containers": {"k:{\"name\":\"web\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                        "f:resources": {"f:limits": {"f:cpu": {}}}
                    }}
                }
            }
        }])
    );
    assert_eq!(created["spec"], thing["spec"]);
}

#[test]
fn a_value_of_another_manager_is_a_conflict() {
    let live = applied(None, &json!({"replicas": 1, "containers": [web("web:1")]}), &applier("a"));
    let conflicts = refused(&live, &json!({"replicas": 2}), &applier("b"));
    assert_eq!(conflicts, [Conflict { manager: "\"a\"".into(), field: ".spec.replicas".into() }]);
    let conflicts = refused(&live, &json!({"containers": [web("web:2")]}), &applier("b"));
    assert_eq!(conflicts[0].field, ".spec.containers[name=\"web\"].image");
    let updated = track_update(&deployment(), None, object(&json!({"replicas": 1})), &updater("kubectl"), FIRST);
    let conflicts = refused(&updated, &json!({"replicas": 2}), &applier("b"));
    assert_eq!(conflicts[0].manager, format!("\"kubectl\" using example.org/v1 at {FIRST}"));
    let error = ApplyError::Conflicts(conflicts);
    assert_eq!(
        error.to_string(),
        format!(
            "Apply failed with 1 conflict: conflict with \"kubectl\" using example.org/v1 at {FIRST}: .spec.replicas"
        )
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let live = applied(None, &json!({"replicas": 1}), &applier("a"));
    let live = applied(Some(&live), &json!({"paused": true, "replicas": 1}), &applier("b"));
    let error = ApplyError::Conflicts(refused(&live, &json!({"replicas": 2, "paused": false}), &applier("c")));
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.replicas\nconflicts with \"b\":\n- .spec.paused\n\
         - .spec.replicas"
    );
}

#[test]
fn the_same_value_is_shared_and_stays_until_the_last_owner_goes() {
    let live = applied(None, &json!({"replicas": 1, "paused": true}), &applier("a"));
    let live = applied(Some(&live), &json!({"replicas": 1}), &applier("b"));
    assert_eq!(owned(&live, "b"), json!({"f:spec": {"f:replicas": {}}}));
    let live = applied(Some(&live), &json!({"paused": true}), &applier("a"));
    assert_eq!(live["spec"], json!({"paused": true, "replicas": 1}));
    let live = applied(Some(&live), &json!({}), &applier("b"));
    assert_eq!(live["spec"], json!({"paused": true}));
    assert_eq!(owned(&live, "b"), json!({"f:spec": {}}));
}

#[test]
fn force_takes_the_field_over() {
    let live = applied(None, &json!({"replicas": 1, "paused": true}), &applier("a"));
    let live = forced(&live, &json!({"replicas": 2}), &applier("b"));
    assert_eq!(live["spec"], json!({"replicas": 2, "paused": true}));
    assert_eq!(owned(&live, "a"), json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(owned(&live, "b"), json!({"f:spec": {"f:replicas": {}}}));
    let time = |name: &str| {
        let entries = live["metadata"]["managedFields"].as_array().unwrap();
        entries.iter().find(|entry| entry["manager"] == name).unwrap()["time"].clone()
    };
    assert_eq!(time("a"), FIRST, "losing a field does not change the time");
    assert_eq!(time("b"), LATER);
}

#[test]
fn fields_no_longer_applied_go_when_nobody_else_owns_them() {
    let live = applied(
        None,
        &json!({"replicas": 1, "containers": [web("web:1"), {"name": "side", "image": "s"}]}),
        &applier("a"),
    );
    let live = applied(Some(&live), &json!({"containers": [{"name": "side", "args": ["x"]}]}), &applier("b"));
    let live = applied(Some(&live), &json!({"containers": [web("web:1")]}), &applier("a"));
    assert_eq!(live["spec"], json!({"containers": [web("web:1"), {"name": "side", "args": ["x"]}]}));
}

#[test]
fn elements_and_map_keys_merge_across_managers() {
    let live =
        applied(None, &json!({"containers": [{"name": "web", "env": [{"name": "A", "value": "1"}]}]}), &applier("a"));
    let live = applied(
        Some(&live),
        &json!({"containers": [
            {"name": "first"}, {"name": "web", "env": [{"name": "B", "value": "2"}], "resources": {"limits": {"cpu": 1}}}
        ]}),
        &applier("b"),
    );
    assert_eq!(
        live["spec"]["containers"],
        json!([
            {"name": "first"},
            {"name": "web", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "resources": {"limits": {"cpu": 1}}}
        ])
    );
    let live = applied(Some(&live), &json!({}), &applier("b"));
    assert_eq!(live["spec"]["containers"], json!([{"name": "web", "env": [{"name": "A", "value": "1"}]}]));
}

#[test]
fn the_applied_order_wins_and_others_stay_where_they_are() {
    let names = |live: &Value| -> Vec<String> {
        let list = live["spec"]["containers"].as_array().unwrap().clone();
        list.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let list =
        |names: &[&str]| json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    let live = applied(None, &list(&["a", "b", "c"]), &applier("one"));
    let live = applied(Some(&live), &list(&["c", "x", "a"]), &applier("two"));
    assert_eq!(names(&live), ["b", "c", "x", "a"]);
    let live = applied(Some(&live), &list(&["a", "b", "c"]), &applier("one"));
    let mut all = names(&live);
    all.retain(|name| name != "x");
    assert_eq!(all, ["a", "b", "c"]);
}

#[test]
fn atomic_lists_and_maps_are_owned_whole() {
    let live = applied(None, &json!({"selector": {"matchLabels": {"a": "1"}}}), &applier("a"));
    let conflicts = refused(&live, &json!({"selector": {"matchLabels": {"b": "1"}}}), &applier("b"));
    assert_eq!(conflicts[0].field, ".spec.selector");
    let live = forced(&live, &json!({"selector": {"matchLabels": {"b": "1"}}}), &applier("b"));
    assert_eq!(live["spec"]["selector"], json!({"matchLabels": {"b": "1"}}));
    assert_eq!(owned(&live, "a"), Value::Null, "a manager that owns nothing has no entry");
}

#[test]
fn a_value_that_changes_its_shape_takes_its_fields_along() {
    let schema = Schema::permissive();
    let live = track_update(&schema, None, object(&json!({"a": {"b": 1}, "c": 1})), &updater("x"), FIRST);
    let live = track_update(&schema, Some(&live), object(&json!({"a": "text", "c": {"d": 1}})), &updater("y"), LATER);
    assert_eq!(owned(&live, "x"), json!({"f:spec": {}}));
    assert_eq!(owned(&live, "y"), json!({"f:spec": {"f:a": {}, "f:c": {".": {}, "f:d": {}}}}));
}

#[test]
fn list_map_keys_use_defaults() {
    let live = applied(
        None,
        &json!({"containers": [{"name": "w", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
        &applier("a"),
    );
    let live = applied(
        Some(&live),
        &json!({"containers": [{"name": "w", "ports": [{"containerPort": 80, "name": "http"}]}]}),
        &applier("b"),
    );
    assert_eq!(
        live["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}])
    );
}

#[test]
fn applies_that_make_no_sense_are_refused() {
    let me = applier("me");
    let twice = object(&json!({"containers": [web("a"), web("b")]}));
    let nameless = object(&json!({"containers": [{"image": "a"}]}));
    let text = object(&json!({"containers": ["a"]}));
    let mut managed = object(&json!({}));
    managed["metadata"]["managedFields"] = json!([{}]);
    for bad in [twice, nameless, text, managed, json!([]), json!({"metadata": 5})] {
        let result = apply(&deployment(), None, &bad, &me, false, FIRST);
        assert!(matches!(result, Err(ApplyError::Invalid(_))), "{bad}");
    }
}

#[test]
fn an_apply_that_changes_nothing_changes_nothing() {
    let spec = json!({"replicas": 1, "containers": [web("web:1")]});
    let live = applied(None, &spec, &applier("a"));
    let again = apply(&deployment(), Some(&live), &object(&spec), &applier("a"), false, LATER).unwrap();
    assert_eq!(again.to_string(), live.to_string());
}

#[test]
fn an_applier_moves_between_versions() {
    let live = applied(None, &json!({"replicas": 1, "paused": true}), &applier("a"));
    let newer = Manager { api_version: "example.org/v2".into(), ..applier("a") };
    let live = apply(&deployment(), Some(&live), &object(&json!({"replicas": 1})), &newer, false, LATER).unwrap();
    assert_eq!(live["spec"], json!({"replicas": 1}));
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["apiVersion"], "example.org/v2");
}

#[test]
fn what_was_stored_without_managers_belongs_to_before_first_apply() {
    let live = object(&json!({"replicas": 1}));
    let conflicts = refused(&live, &json!({"replicas": 2}), &applier("a"));
    assert_eq!(conflicts[0].manager, "\"before-first-apply\" using example.org/v1");
    let result = applied(Some(&live), &json!({"replicas": 1}), &applier("a"));
    assert_eq!(owned(&result, "before-first-apply"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn plain_writes_own_what_they_change() {
    let schema = deployment();
    let mut thing = object(&json!({"replicas": 1, "containers": [web("web:1")]}));
    thing["metadata"]["labels"] = json!({"app": "x"});
    thing["metadata"]["uid"] = json!("1");
    let live = track_update(&schema, None, thing, &updater("create"), FIRST);
    assert_eq!(
        owned(&live, "create"),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {".": {}, "f:replicas": {}, "f:containers": {
                ".": {}, "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}}
            }}
        })
    );
    let mut new = live.clone();
    new["spec"]["replicas"] = json!(2);
    new["spec"]["paused"] = json!(true);
    let live = track_update(&schema, Some(&live), new, &updater("edit"), LATER);
    assert_eq!(owned(&live, "edit"), json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
    assert_eq!(owned(&live, "create")["f:spec"].get("f:replicas"), None);
    let mut new = live.clone();
    new["spec"].as_object_mut().unwrap().remove("paused");
    let live = track_update(&schema, Some(&live), new, &updater("create"), LATER);
    assert_eq!(owned(&live, "edit"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn a_plain_write_that_changes_nothing_changes_nothing() {
    let live = track_update(&deployment(), None, object(&json!({"replicas": 1})), &updater("a"), FIRST);
    let mut sent = live.clone();
    sent["metadata"].as_object_mut().unwrap().remove("managedFields");
    sent["metadata"]["resourceVersion"] = json!("7");
    let mut again = track_update(&deployment(), Some(&live), sent, &updater("b"), LATER);
    again["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(again, live);
}

#[test]
fn writes_of_one_updater_are_one_entry() {
    let schema = deployment();
    let live = track_update(&schema, None, object(&json!({"replicas": 1})), &updater("a"), FIRST);
    let mut new = live.clone();
    new["spec"]["paused"] = json!(true);
    let live = track_update(&schema, Some(&live), new, &updater("a"), LATER);
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["time"], LATER);
    assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {".": {}, "f:paused": {}, "f:replicas": {}}}));
}

#[test]
fn a_subresource_has_its_own_entry() {
    let schema = deployment();
    let live = track_update(&schema, None, object(&json!({"replicas": 1})), &updater("a"), FIRST);
    let status = manager("a", Operation::Update, Some("status"));
    let mut new = live.clone();
    new["status"] = json!({"readyReplicas": 1});
    let live = track_update(&schema, Some(&live), new, &status, LATER);
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {".": {}, "f:readyReplicas": {}}}));
    let by_apply = apply(
        &schema,
        Some(&live),
        &json!({"status": {"readyReplicas": 2}}),
        &manager("b", Operation::Apply, Some("status")),
        false,
        LATER,
    );
    let conflicts = conflicts(by_apply);
    assert_eq!(conflicts[0].manager, format!("\"a\" with subresource \"status\" using example.org/v1 at {LATER}"));
}

#[test]
fn one_name_that_applies_and_updates_is_two_managers() {
    let live = track_update(&deployment(), None, object(&json!({"replicas": 1})), &updater("a"), FIRST);
    assert_eq!(refused(&live, &json!({"replicas": 2}), &applier("a")).len(), 1);
}

#[test]
fn writers_that_do_not_know_managed_fields_do_not_lose_them() {
    let schema = deployment();
    let live = applied(None, &json!({"replicas": 1}), &applier("a"));
    let live =
        track_update(&schema, Some(&live), object(&json!({"replicas": 1, "paused": true})), &updater("b"), LATER);
    assert_eq!(owned(&live, "a"), json!({"f:spec": {"f:replicas": {}}}));
    for broken in
        [json!("x"), json!([{"operation": "Sing"}]), json!([{"operation": "Apply", "apiVersion": "v1", "fieldsV1": 5}])]
    {
        let mut sent = live.clone();
        sent["metadata"]["managedFields"] = broken;
        let kept = track_update(&schema, Some(&live), sent, &updater("b"), LATER);
        assert_eq!(kept, live);
    }
    let mut reset = live.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    let reset = track_update(&schema, Some(&live), reset, &updater("b"), LATER);
    assert_eq!(reset["metadata"].get("managedFields"), None);
}

#[test]
fn many_updaters_are_folded_together() {
    let schema = Schema::permissive();
    let mut live = track_update(&schema, None, object(&json!({})), &updater("first"), FIRST);
    for index in 0..30 {
        let mut new = live.clone();
        new["spec"][format!("k{index}")] = json!(index);
        live = track_update(
            &schema,
            Some(&live),
            new,
            &updater(&format!("m{index}")),
            &format!("2024-02-{:02}T00:00:00Z", index + 1),
        );
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_ne!(owned(&live, "ancient-changes"), Value::Null);
    assert_ne!(owned(&live, "m29"), Value::Null);
}

#[test]
fn without_a_schema_maps_are_granular_and_lists_atomic() {
    let schema = Schema::permissive();
    let run =
        |live: Option<&Value>, spec: Value, by: &str| apply(&schema, live, &object(&spec), &applier(by), false, FIRST);
    let live = run(None, json!({"a": {"b": 1}, "list": [{"name": "x"}]}), "a").unwrap();
    assert_eq!(owned(&live, "a"), json!({"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:list": {}}}));
    let live = run(Some(&live), json!({"a": {"c": 2}}), "b").unwrap();
    assert_eq!(live["spec"]["a"], json!({"b": 1, "c": 2}));
    let conflicts = conflicts(run(Some(&live), json!({"list": []}), "b"));
    assert_eq!(conflicts[0].field, ".spec.list");
    let live = run(Some(&live), json!({"list": [{"name": "x"}]}), "a").unwrap();
    assert_eq!(live["spec"], json!({"a": {"c": 2}, "list": [{"name": "x"}]}));
}
