//! Every conformance case on the embedded API, each in a namespace of its own.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use modelway_apiserver::{ApiServer, Options};
use modelway_tests::conformance::{CASES, Case};

/// Cases at a time.
const PARALLEL: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_api_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let failed: Vec<&str> = stream::iter(CASES)
        .map(|(name, case)| run(server.client("default"), name, *case))
        .buffer_unordered(PARALLEL)
        .filter_map(|failed| async move { failed })
        .collect()
        .await;
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:#?}", failed.len(), CASES.len());
}

/// The name of the case when it failed.
async fn run(client: Client, name: &'static str, case: Case) -> Option<&'static str> {
    let namespace = format!("c-{}", name.replace("::", "-").replace('_', "-"));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
    let object = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &object).await.unwrap();
    AssertUnwindSafe(case(client, namespace)).catch_unwind().await.is_err().then_some(name)
}
