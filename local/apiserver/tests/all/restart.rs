//! What a restart keeps: objects, kinds, revisions, and the events that watches resume from.

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use modelway_apiserver::{ApiServer, OpenError, Options, store::DiskError};
use serde_json::{Value, json};

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    })
}

/// Opens the folder again once the closed server's writer has ended.
async fn reopen(path: &Path) -> ApiServer {
    for _ in 0..500 {
        match ApiServer::open(Options::new(path)) {
            Err(OpenError::Store(DiskError::InUse { .. })) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return other.unwrap(),
        }
    }
    unreachable!("the closed server did not free its folder");
}

fn widgets(server: &ApiServer) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    Api::default_namespaced_with(server.client("default"), &kind)
}

#[tokio::test]
async fn kinds_objects_and_watches_survive() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    server.install_crds(&[definition()]).await.unwrap();
    server.install_crds(&[definition()]).await.unwrap();
    let api = widgets(&server);
    let widget: DynamicObject = serde_json::from_value(
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}),
    )
    .unwrap();
    let made = api.create(&PostParams::default(), &widget).await.unwrap();
    let seen = made.metadata.resource_version.unwrap();
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 2}}))).await.unwrap();
    drop((api, server));

    let server = reopen(folder.path()).await;
    let api = widgets(&server);
    assert_eq!(api.get("a").await.unwrap().data["spec"]["size"], 2);
    let mut events = api.watch(&WatchParams::default(), &seen).await.unwrap().boxed();
    let Some(WatchEvent::Modified(modified)) = events.try_next().await.unwrap() else { panic!("not replayed") };
    let newest: u64 = modified.metadata.resource_version.unwrap().parse().unwrap();
    let again = api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 3}}))).await.unwrap();
    assert!(again.metadata.resource_version.unwrap().parse::<u64>().unwrap() > newest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_servers_folder_opens_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let server = ApiServer::open(Options::new(folder.path())).unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
        assert!(maps.get_opt("none").await.unwrap().is_none());
        server.shutdown();
    }
}

#[tokio::test]
async fn watches_below_the_kept_events_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { events_kept: 8, ..Options::new(folder.path()) };
    let server = ApiServer::open(options).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let old = api.create(&PostParams::default(), &map).await.unwrap().metadata.resource_version.unwrap();
    for number in 0..30 {
        let patch = Patch::Merge(json!({"data": {"k": number.to_string()}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let mut events = api.watch(&WatchParams::default(), &old).await.unwrap().boxed();
    let Some(WatchEvent::Error(status)) = events.try_next().await.unwrap() else { panic!("no error") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn the_folder_belongs_to_one_server_until_its_last_handle_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let client = server.client("default");
    drop(server);
    let error = ApiServer::open(Options::new(folder.path())).unwrap_err();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    assert!(namespaces.get_opt("kube-system").await.unwrap().is_some());
    drop(namespaces);
    reopen(folder.path()).await;
}
