//! One walk over the verbs.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use modelway_apiserver::{ApiServer, Options};
use serde_json::json;

#[tokio::test]
async fn create_watch_patch_list_delete() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).unwrap();
    let created = api.create(&PostParams::default(), &map).await.unwrap();
    let version = created.metadata.resource_version.unwrap();
    let mut events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    let Some(WatchEvent::Modified(seen)) = events.try_next().await.unwrap() else { panic!("no event") };
    assert_eq!(seen.data.unwrap()["k"], "2");
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}
