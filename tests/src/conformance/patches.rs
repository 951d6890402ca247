//! Merge, JSON and strategic merge patches.

use serde_json::json;

use super::support::{Api, JSON, MERGE, STRATEGIC, revision};

pub async fn merge_patch_sets_and_removes(api: &Api) {
    api.new_map("a", &json!({}), &json!({"keep": "1", "drop": "2"})).await;
    let patched = api.patch(&api.map("a"), MERGE, &json!({"data": {"drop": null, "new": "3"}})).await.unwrap();
    assert_eq!(patched["data"], json!({"keep": "1", "new": "3"}));
}

pub async fn json_patch_tests_before_it_writes(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    let patch = |expected: &str| json!([{"op": "test", "path": "/data/k", "value": expected}, {"op": "add", "path": "/data/n", "value": "2"}]);
    let status = api.patch(&api.map("a"), JSON, &patch("other")).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(api.get(&api.map("a")).await.unwrap(), map);
    let patched = api.patch(&api.map("a"), JSON, &patch("1")).await.unwrap();
    assert_eq!(patched["data"], json!({"k": "1", "n": "2"}));
}

pub async fn strategic_patch_merges_lists_by_key(api: &Api) {
    let path = api.path("apps/v1", "deployments");
    api.post(&path, &super::builtins::deployment("web")).await.unwrap();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}});
    let patched = api.patch(&format!("{path}/web"), STRATEGIC, &patch).await.unwrap();
    let containers = patched["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    let remove = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    let patched = api.patch(&format!("{path}/web"), STRATEGIC, &remove).await.unwrap();
    assert_eq!(patched["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
}

pub async fn unknown_patch_types_are_refused(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let status = api.patch(&api.map("a"), "application/json", &json!({})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (415, "UnsupportedMediaType"));
}

pub async fn patched_revision_is_a_precondition(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    let patch = |value: &str| json!({"metadata": {"resourceVersion": map["metadata"]["resourceVersion"]}, "data": {"k": value}});
    let newer = api.patch(&api.map("a"), MERGE, &patch("2")).await.unwrap();
    assert!(revision(&newer) > revision(&map));
    assert_eq!(api.patch(&api.map("a"), MERGE, &patch("3")).await.unwrap_err().code, 409);
}

pub async fn concurrent_patches_all_count(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let patches = (0..20).map(|number| async move {
        api.patch(&api.map("a"), MERGE, &json!({"data": {format!("k{number}"): "v"}})).await
    });
    let done = futures::future::join_all(patches).await.into_iter().flatten().count();
    let map = api.get(&api.map("a")).await.unwrap();
    // A server may give up on one after several conflicts, but never lose one that it acknowledged.
    assert_eq!(map["data"].as_object().unwrap().len(), done);
    assert!(done > 0);
}
