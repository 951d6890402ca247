//! Deletes: preconditions, finalizers, grace periods, collections.

use serde_json::json;

use super::builtins::pod;
use super::support::{Api, MERGE, names};

pub async fn preconditions_guard_a_delete(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({})).await;
    let status = api.delete(&api.map("a"), &json!({"preconditions": {"uid": "other"}})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let status = api.delete(&api.map("a"), &json!({"preconditions": {"resourceVersion": "1"}})).await.unwrap_err();
    assert_eq!(status.code, 409);
    let answer = api.delete(&api.map("a"), &json!({"preconditions": {"uid": map["metadata"]["uid"]}})).await.unwrap();
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(answer["details"]["uid"], map["metadata"]["uid"]);
    assert_eq!(api.delete(&api.map("a"), &json!({})).await.unwrap_err().code, 404);
}

pub async fn finalizers_hold_an_object(api: &Api) {
    api.new_map("a", &json!({"finalizers": ["example.com/hold"]}), &json!({})).await;
    let marked = api.delete(&api.map("a"), &json!({})).await.unwrap();
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(api.get(&api.map("a")).await.unwrap()["metadata"]["finalizers"], json!(["example.com/hold"]));
    api.patch(&api.map("a"), MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert_eq!(api.get(&api.map("a")).await.unwrap_err().code, 404);
}

pub async fn terminating_objects_take_no_new_finalizers(api: &Api) {
    api.new_map("a", &json!({"finalizers": ["example.com/hold"]}), &json!({})).await;
    api.delete(&api.map("a"), &json!({})).await.unwrap();
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let status = api.patch(&api.map("a"), MERGE, &more).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains("no new finalizers can be added if the object is being deleted"));
}

pub async fn unscheduled_pods_go_at_once(api: &Api) {
    let path = api.path("v1", "pods");
    let mut unscheduled = pod("a");
    // A scheduler that nobody runs.
    unscheduled["spec"]["schedulerName"] = "none".into();
    api.post(&path, &unscheduled).await.unwrap();
    api.delete(&format!("{path}/a"), &json!({})).await.unwrap();
    assert_eq!(api.get(&format!("{path}/a")).await.unwrap_err().code, 404);
}

pub async fn running_pods_wait_for_their_node(api: &Api) {
    let path = api.path("v1", "pods");
    let mut placed = pod("a");
    placed["spec"]["nodeName"] = "a-node-that-nobody-runs".into();
    placed["spec"]["terminationGracePeriodSeconds"] = 7.into();
    api.post(&path, &placed).await.unwrap();
    let marked = api.delete(&format!("{path}/a"), &json!({})).await.unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 7);
    let shorter = api.delete(&format!("{path}/a"), &json!({"gracePeriodSeconds": 3})).await.unwrap();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 3);
    api.delete(&format!("{path}/a"), &json!({"gracePeriodSeconds": 0})).await.unwrap();
    assert_eq!(api.get(&format!("{path}/a")).await.unwrap_err().code, 404);
}

pub async fn evictions_delete(api: &Api) {
    let path = api.path("v1", "pods");
    let mut unscheduled = pod("a");
    unscheduled["spec"]["schedulerName"] = "none".into();
    api.post(&path, &unscheduled).await.unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    api.post(&format!("{path}/a/eviction"), &eviction).await.unwrap();
    assert_eq!(api.get(&format!("{path}/a")).await.unwrap_err().code, 404);
}

pub async fn collections_are_deleted_by_selector(api: &Api) {
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        api.new_map(name, &json!({"labels": {"l": label}}), &json!({})).await;
    }
    api.delete(&format!("{}?labelSelector=l%3Dx", api.maps()), &json!({})).await.unwrap();
    let left = api.get(&format!("{}?labelSelector=l", api.maps())).await.unwrap();
    assert_eq!(names(&left), ["c"]);
}
