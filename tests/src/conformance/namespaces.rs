//! Namespaces.

use serde_json::json;

use super::support::{Api, MERGE, eventually};

pub async fn creating_in_a_missing_namespace_is_not_found(api: &Api) {
    let path = "/api/v1/namespaces/there-is-no-such-namespace/configmaps";
    let status = api.post(path, &json!({"metadata": {"name": "a"}})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "namespaces \"there-is-no-such-namespace\" not found");
}

/// A second namespace with a held config map in it.
async fn held(api: &Api) -> Api {
    let mut other = api.clone();
    other.namespace = format!("{}-2", api.namespace);
    let made = api.post("/api/v1/namespaces", &json!({"metadata": {"name": other.namespace}})).await.unwrap();
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], other.namespace.as_str());
    other.new_map("plain", &json!({}), &json!({})).await;
    other.new_map("held", &json!({"finalizers": ["example.com/hold"]}), &json!({})).await;
    other
}

pub async fn deletion_empties_a_namespace(api: &Api) {
    let other = held(api).await;
    let path = format!("/api/v1/namespaces/{}", other.namespace);
    let marked = api.delete(&path, &json!({})).await.unwrap();
    assert_eq!(marked["status"]["phase"], "Terminating");
    other.gone(&other.map("plain")).await;
    eventually("the held one to be marked", || async {
        let map = other.get(&other.map("held")).await.unwrap();
        map["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    api.get(&path).await.unwrap();
    other.patch(&other.map("held"), MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    api.gone(&path).await;
}

pub async fn terminating_namespaces_take_nothing_new(api: &Api) {
    let other = held(api).await;
    api.delete(&format!("/api/v1/namespaces/{}", other.namespace), &json!({})).await.unwrap();
    let status = other.post(&other.maps(), &json!({"metadata": {"name": "new"}})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(status.details.unwrap().causes[0].reason, "NamespaceTerminating");
    other.patch(&other.map("held"), MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
}
