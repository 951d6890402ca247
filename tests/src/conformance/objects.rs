//! Creating, reading and replacing single objects.

use serde_json::json;

use super::support::{Api, MERGE, fields, name, revision};

pub async fn create_fills_what_the_server_owns(api: &Api) {
    let map = api.new_map("a", &json!({"uid": "mine"}), &json!({"k": "v"})).await;
    let metadata = &map["metadata"];
    assert_eq!(metadata["namespace"], api.namespace.as_str());
    assert_ne!(metadata["uid"], "mine");
    assert!(metadata["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert!(metadata.get("generation").is_none());
    assert!(revision(&map) > 0);
    assert_eq!(api.get(&api.map("a")).await.unwrap(), map);
}

pub async fn create_twice_already_exists(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let status = api.post(&api.maps(), &json!({"metadata": {"name": "a"}})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"a\" already exists");
    assert_eq!(status.details.unwrap().kind, "configmaps");
}

pub async fn names_are_checked(api: &Api) {
    let status = api.post(&api.maps(), &json!({"metadata": {"name": "Not_Valid"}})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(fields(&status), ["metadata.name"]);
    assert!(status.message.starts_with("ConfigMap \"Not_Valid\" is invalid: metadata.name: Invalid value"));
    let status = api.post(&api.maps(), &json!({"metadata": {}})).await.unwrap_err();
    assert_eq!(status.code, 422);
}

pub async fn generated_names_get_a_suffix(api: &Api) {
    let body = json!({"metadata": {"generateName": "job-"}});
    let first = api.post(&api.maps(), &body).await.unwrap();
    let second = api.post(&api.maps(), &body).await.unwrap();
    assert_eq!(name(&first).len(), "job-".len() + 5);
    assert!(name(&first).starts_with("job-"));
    assert_ne!(name(&first), name(&second));
}

pub async fn missing_objects_and_paths_are_not_found(api: &Api) {
    let status = api.get(&api.map("none")).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "configmaps \"none\" not found");
    // Kubernetes answers with plain text where no group is served.
    assert_eq!(api.get(&api.path("nothing.example.com/v1", "things")).await.unwrap_err().code, 404);
}

pub async fn stale_replace_conflicts(api: &Api) {
    let mut map = api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    let stale = map.clone();
    map["data"]["k"] = "2".into();
    let newer = api.put(&api.map("a"), &map).await.unwrap();
    assert!(revision(&newer) > revision(&stale));
    let status = api.put(&api.map("a"), &stale).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
}

pub async fn replace_without_revision_wins(api: &Api) {
    api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    let body = json!({"metadata": {"name": "a"}, "data": {"other": "2"}});
    let replaced = api.put(&api.map("a"), &body).await.unwrap();
    assert_eq!(replaced["data"], json!({"other": "2"}));
}

pub async fn replace_does_not_create(api: &Api) {
    // Config maps are created by an update on a real server; these are not.
    let path = api.path("apps/v1", "deployments");
    let status = api.put(&format!("{path}/none"), &super::builtins::deployment("none")).await.unwrap_err();
    assert_eq!(status.code, 404);
}

pub async fn server_metadata_cannot_be_changed(api: &Api) {
    let mut map = api.new_map("a", &json!({}), &json!({})).await;
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}, "data": {"k": "v"}});
    let patched = api.patch(&api.map("a"), MERGE, &patch).await.unwrap();
    assert_eq!(patched["metadata"]["creationTimestamp"], map["metadata"]["creationTimestamp"]);
    assert!(patched["metadata"].get("generation").is_none());
    for (field, value) in [
        ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
        ("uid", json!("other")),
    ] {
        let status = api.patch(&api.map("a"), MERGE, &json!({"metadata": {field: value}})).await.unwrap_err();
        assert_eq!((status.code, fields(&status)), (422, vec![format!("metadata.{field}")]));
        assert!(status.message.ends_with("field is immutable"), "{}", status.message);
    }
    map["metadata"]["uid"] = "other".into();
    map["metadata"]["resourceVersion"] = json!(null);
    assert_eq!(api.put(&api.map("a"), &map).await.unwrap_err().code, 409);
}

pub async fn unchanged_writes_keep_the_revision(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({"k": "v"})).await;
    let again = api.put(&api.map("a"), &map).await.unwrap();
    assert_eq!(revision(&again), revision(&map));
    let patched = api.patch(&api.map("a"), MERGE, &json!({"data": {"k": "v"}})).await.unwrap();
    assert_eq!(revision(&patched), revision(&map));
}

pub async fn dry_run_writes_nothing(api: &Api) {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = api.post(&format!("{}?dryRun=All", api.maps()), &body).await.unwrap();
    assert_eq!(made["data"]["k"], "v");
    assert_eq!(api.get(&api.map("a")).await.unwrap_err().code, 404);
    let map = api.new_map("a", &json!({}), &json!({"k": "v"})).await;
    let path = format!("{}?dryRun=All", api.map("a"));
    let patched = api.patch(&path, MERGE, &json!({"data": {"k": "w"}})).await.unwrap();
    assert_eq!(patched["data"]["k"], "w");
    api.delete(&api.map("a"), &json!({"dryRun": ["All"]})).await.unwrap();
    api.send("DELETE", &path, &[], String::new()).await.unwrap();
    assert_eq!(api.get(&api.map("a")).await.unwrap(), map);
    // The parameters of a deletion count only where it has no body.
    api.delete(&path, &json!({})).await.unwrap();
    assert_eq!(api.get(&api.map("a")).await.unwrap_err().code, 404);
}

pub async fn bodies_are_judged(api: &Api) {
    let send = |kind: &'static str, body: &'static str| async move {
        api.send("POST", &api.maps(), &[("content-type", kind)], body.to_owned()).await.unwrap_err()
    };
    assert_eq!(send("application/json", "{\"metadata\": ").await.code, 400);
    assert_eq!(send("text/csv", "a,b").await.code, 415);
    let status =
        send("application/json", "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"a\"}}").await;
    assert_eq!(status.code, 400);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  k: v\n".to_owned();
    let made = api.send("POST", &api.maps(), &[("content-type", "application/yaml")], yaml).await.unwrap();
    assert_eq!(made["data"]["k"], "v");
}

pub async fn unknown_fields_are_warned_about_or_refused(api: &Api) {
    let body = json!({"metadata": {"name": "a"}, "dota": {"k": "v"}});
    let status = api.post(&format!("{}?fieldValidation=Strict", api.maps()), &body).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    assert!(status.message.contains("strict decoding error: unknown field \"dota\""), "{}", status.message);
    let made = api.post(&api.maps(), &body).await.unwrap();
    assert!(made.get("dota").is_none());
}

pub async fn bad_labels_are_invalid(api: &Api) {
    let body = json!({"metadata": {"name": "a", "labels": {"k": "not valid!"}}});
    let status = api.post(&api.maps(), &body).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(fields(&status), ["metadata.labels"]);
}

pub async fn large_bodies_are_refused(api: &Api) {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(4 * 1024 * 1024)}});
    let status = api.post(&api.maps(), &body).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (413, "RequestEntityTooLarge"));
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1200 * 1024)}});
    assert_eq!(api.post(&api.maps(), &body).await.unwrap_err().code, 422);
}

pub async fn metadata_types_are_checked(api: &Api) {
    let status = api.post(&api.maps(), &json!({"metadata": {"name": "a", "labels": {"k": 5}}})).await.unwrap_err();
    assert_eq!(status.code, 400);
}
