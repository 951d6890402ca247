//! Prints what a call costs; asserts nothing about time.

use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use modelway_apiserver::{ApiServer, Options};
use serde_json::json;

const OBJECTS: u32 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_process() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Instant::now();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let opened = opening.elapsed();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let started = Instant::now();
    let writes = (0..OBJECTS).map(|number| {
        let api = api.clone();
        async move {
            let map = json!({"metadata": {"name": format!("c{number}")}, "data": {"k": "v"}});
            api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        }
    });
    futures::future::join_all(writes).await;
    let wrote = started.elapsed() / OBJECTS;
    let started = Instant::now();
    for _ in 0..OBJECTS {
        api.get("c1").await.unwrap();
    }
    let got = started.elapsed() / OBJECTS;
    let started = Instant::now();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 500);
    println!("open {opened:?}, write {wrote:?}, get {got:?}, list of {OBJECTS} {:?}", started.elapsed());
}
