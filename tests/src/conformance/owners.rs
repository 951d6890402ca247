//! Owner references.

use serde_json::{Value, json};

use super::support::{Api, MERGE, eventually, owner};

/// An object with one dependent named `child`.
async fn family(api: &Api) -> Value {
    let parent = api.new_map("parent", &json!({}), &json!({})).await;
    api.new_map("child", &json!({"ownerReferences": [owner(&parent)]}), &json!({})).await;
    parent
}

pub async fn background_deletes_dependents(api: &Api) {
    family(api).await;
    api.delete(&api.map("parent"), &json!({"propagationPolicy": "Background"})).await.unwrap();
    assert_eq!(api.get(&api.map("parent")).await.unwrap_err().code, 404);
    api.gone(&api.map("child")).await;
}

pub async fn foreground_waits_for_dependents(api: &Api) {
    family(api).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    api.patch(&api.map("child"), MERGE, &hold).await.unwrap();
    let marked = api.delete(&api.map("parent"), &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    eventually("the child to be marked", || async {
        let child = api.get(&api.map("child")).await.unwrap();
        child["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    api.get(&api.map("parent")).await.unwrap();
    api.patch(&api.map("child"), MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    api.gone(&api.map("parent")).await;
}

pub async fn orphan_releases_dependents(api: &Api) {
    family(api).await;
    api.delete(&api.map("parent"), &json!({"propagationPolicy": "Orphan"})).await.unwrap();
    api.gone(&api.map("parent")).await;
    let child = api.get(&api.map("child")).await.unwrap();
    assert!(child["metadata"].get("ownerReferences").is_none());
    assert!(child["metadata"].get("deletionTimestamp").is_none());
}

pub async fn one_of_two_owners_is_enough(api: &Api) {
    let first = api.new_map("first", &json!({}), &json!({})).await;
    let second = api.new_map("second", &json!({}), &json!({})).await;
    api.new_map("child", &json!({"ownerReferences": [owner(&first), owner(&second)]}), &json!({})).await;
    api.delete(&api.map("first"), &json!({})).await.unwrap();
    eventually("the reference to be dropped", || async {
        let child = api.get(&api.map("child")).await.unwrap();
        (child["metadata"]["ownerReferences"] == json!([owner(&second)])).then_some(())
    })
    .await;
    api.delete(&api.map("second"), &json!({})).await.unwrap();
    api.gone(&api.map("child")).await;
}

pub async fn foreign_uid_is_no_owner(api: &Api) {
    let mut parent = api.new_map("parent", &json!({}), &json!({})).await;
    parent["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    api.new_map("child", &json!({"ownerReferences": [owner(&parent)]}), &json!({})).await;
    api.gone(&api.map("child")).await;
}
