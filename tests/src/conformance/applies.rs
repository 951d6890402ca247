//! Server-side apply.

use serde_json::{Value, json};

use super::support::{Api, fields, revision};

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn managers(object: &Value) -> Vec<&str> {
    object["metadata"]["managedFields"].as_array().unwrap().iter().map(|one| one["manager"].as_str().unwrap()).collect()
}

pub async fn apply_creates_and_tracks_fields(api: &Api) {
    let made = api.apply(&api.map("a"), "one", "", &map(&json!({"k": "v"}))).await.unwrap();
    assert_eq!(made["data"], json!({"k": "v"}));
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("one"), &json!("Apply")));
    assert_eq!(entry["fieldsV1"]["f:data"]["f:k"], json!({}));
    assert_eq!((&entry["apiVersion"], &entry["fieldsType"]), (&json!("v1"), &json!("FieldsV1")));
}

pub async fn two_managers_share_an_object(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let both = api.apply(&api.map("a"), "two", "", &map(&json!({"y": "2"}))).await.unwrap();
    assert_eq!(both["data"], json!({"x": "1", "y": "2"}));
    let mut known = managers(&both);
    known.sort_unstable();
    assert_eq!(known, ["one", "two"]);
}

pub async fn conflicts_name_manager_and_field(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let status = api.apply(&api.map("a"), "two", "", &map(&json!({"x": "2"}))).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(fields(&status), [".data.x"]);
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!(cause.message, "conflict with \"one\"");
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    api.apply(&api.map("a"), "two", "", &map(&json!({"x": "1"}))).await.unwrap();
}

pub async fn force_takes_fields_over(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let forced = api.apply(&api.map("a"), "two", "&force=true", &map(&json!({"x": "2"}))).await.unwrap();
    assert_eq!(forced["data"]["x"], "2");
    let status = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap_err();
    assert_eq!(status.code, 409);
}

pub async fn dropped_fields_are_removed(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1", "y": "2"}))).await.unwrap();
    api.patch(&api.map("a"), super::support::MERGE, &json!({"data": {"z": "3"}})).await.unwrap();
    let applied = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    assert_eq!(applied["data"], json!({"x": "1", "z": "3"}));
}

pub async fn keyed_lists_merge(api: &Api) {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    api.apply(&path, "one", "", &super::builtins::deployment("web")).await.unwrap();
    let side = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}},
    });
    let both = api.apply(&path, "two", "", &side).await.unwrap();
    assert_eq!(both["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
    let without = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    let one = api.apply(&path, "two", "", &without).await.unwrap();
    let containers = one["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), &containers[0]["name"]), (1, &json!("main")));
}

pub async fn apply_wants_a_manager(api: &Api) {
    let body = map(&json!({}));
    let status = api.patch(&api.map("a"), "application/apply-patch+yaml", &body).await.unwrap_err();
    assert!(matches!(status.code, 400 | 422), "{}", status.code);
    assert!(status.message.contains("fieldManager"));
}

pub async fn repeated_apply_writes_nothing(api: &Api) {
    let first = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let second = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    assert_eq!(revision(&first), revision(&second));
}

pub async fn parts_are_owned_apart(api: &Api) {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    let mut both = super::builtins::deployment("web");
    both["status"] = json!({"replicas": 7});
    let made = api.apply(&path, "one", "", &both).await.unwrap();
    assert!(made["status"].get("replicas").is_none());
    assert!(made["metadata"]["managedFields"][0]["fieldsV1"].get("f:status").is_none());
    let status = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"paused": true}, "status": {"observedGeneration": 1},
    });
    let reported = api.apply(&format!("{path}/status"), "two", "", &status).await.unwrap();
    assert_eq!(reported["status"]["observedGeneration"], 1);
    assert!(reported["spec"].get("paused").is_none());
    let entries = reported["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|one| one["manager"] == "two").unwrap();
    assert_eq!(entry["subresource"], "status");
    assert!(entry["fieldsV1"].get("f:spec").is_none());
}
