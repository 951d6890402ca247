//! Watches.

use futures::stream::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Event};
use serde_json::json;

use super::support::{Api, MERGE, name, revision};

pub async fn replays_from_a_revision(api: &Api) {
    let first = api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    api.patch(&api.map("a"), MERGE, &json!({"data": {"k": "2"}})).await.unwrap();
    api.delete(&api.map("a"), &json!({})).await.unwrap();
    let query = format!("watch=true&resourceVersion={}&fieldSelector=metadata.name%3Da", revision(&first));
    let mut watch = api.watch(&format!("{}?{query}", api.maps())).await;
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), &object["data"]["k"]), ("MODIFIED", &json!("2")));
    assert_eq!(watch.event().await.0, "DELETED");
    api.new_map("a", &json!({}), &json!({})).await;
    assert_eq!(watch.event().await.0, "ADDED");
}

pub async fn starts_with_existing_objects(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let mut watch = api.watch(&format!("{}?watch=1&fieldSelector=metadata.name%3Da", api.maps())).await;
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), name(&object)), ("ADDED", "a"));
}

pub async fn streaming_list_ends_with_a_bookmark(api: &Api) {
    api.new_map("a", &json!({"labels": {"x": "y"}}), &json!({})).await;
    let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=x%3Dy";
    let mut watch = api.watch(&format!("{}?{query}", api.maps())).await;
    let added = watch.next().await.unwrap();
    assert_eq!((&added["type"], name(&added["object"])), (&json!("ADDED"), "a"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(revision(&bookmark["object"]) >= revision(&added["object"]));
    api.new_map("b", &json!({"labels": {"x": "y"}}), &json!({})).await;
    assert_eq!(watch.event().await.0, "ADDED");
}

pub async fn leaving_a_selector_is_a_delete(api: &Api) {
    let map = api.new_map("a", &json!({"labels": {"x": "y"}}), &json!({})).await;
    let query = format!("watch=true&resourceVersion={}&labelSelector=x%3Dy", revision(&map));
    let mut watch = api.watch(&format!("{}?{query}", api.maps())).await;
    let left = api.patch(&api.map("a"), MERGE, &json!({"metadata": {"labels": {"x": "z"}}})).await.unwrap();
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), revision(&object)), ("DELETED", revision(&left)));
    assert_eq!(object["metadata"]["labels"]["x"], "y");
    api.patch(&api.map("a"), MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    assert_eq!(watch.event().await.0, "ADDED");
}

pub async fn deleted_events_carry_the_deletion_revision(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({"k": "v"})).await;
    let query = format!("watch=true&resourceVersion={}&fieldSelector=metadata.name%3Da", revision(&map));
    let mut watch = api.watch(&format!("{}?{query}", api.maps())).await;
    api.delete(&api.map("a"), &json!({})).await.unwrap();
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), &object["data"]["k"]), ("DELETED", &json!("v")));
    assert!(revision(&object) > revision(&map));
}

pub async fn too_old_revisions_are_gone(api: &Api) {
    // A server that has not compacted yet replays; one that has says so. Neither may lose events in silence.
    let map = api.new_map("a", &json!({}), &json!({})).await;
    let query = "watch=true&resourceVersion=1&fieldSelector=metadata.name%3Da";
    let mut watch = api.watch(&format!("{}?{query}", api.maps())).await;
    let (kind, object) = watch.event().await;
    if kind == "ERROR" {
        assert_eq!((&object["code"], &object["reason"]), (&json!(410), &json!("Expired")));
    } else {
        assert_eq!((kind.as_str(), revision(&object)), ("ADDED", revision(&map)));
    }
}

pub async fn timeouts_end_the_watch(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({})).await;
    let query = format!("watch=true&timeoutSeconds=1&resourceVersion={}", revision(&map));
    let mut watch = api.watch(&format!("{}?{query}&fieldSelector=metadata.name%3Da", api.maps())).await;
    assert!(watch.next().await.is_none());
}

/// Both ways in which kube-rs controllers read: list and watch, and streaming lists.
pub async fn controllers_can_follow(api: &Api) {
    api.new_map("a", &json!({"labels": {"x": "y"}}), &json!({})).await;
    let lists = watcher::Config::default().labels("x=y");
    for (round, config) in [lists.clone(), lists.streaming_lists()].into_iter().enumerate() {
        let maps = kube::Api::<ConfigMap>::namespaced(api.client(), &api.namespace);
        let mut events = watcher::watcher(maps, config).boxed();
        let mut initial = Vec::new();
        loop {
            match events.try_next().await.unwrap().unwrap() {
                Event::Init => {}
                Event::InitApply(map) => initial.push(map.metadata.name.unwrap()),
                Event::InitDone => break,
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(initial, ["a"]);
        let new = format!("new-{round}");
        api.new_map(&new, &json!({"labels": {"x": "y"}}), &json!({})).await;
        let Some(Event::Apply(map)) = events.try_next().await.unwrap() else { unreachable!("no event") };
        assert_eq!(map.metadata.name.as_ref(), Some(&new));
        api.delete(&api.map(&new), &json!({})).await.unwrap();
        let Some(Event::Delete(map)) = events.try_next().await.unwrap() else { unreachable!("no event") };
        assert_eq!(map.metadata.name, Some(new));
    }
}
