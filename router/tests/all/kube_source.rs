//! The route table and endpoints from an API server: the embedded one, in process.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use modelway_api::route_table::{RouteTable, RouteTableSpec};
use modelway_apiserver::{ApiServer, Options};
use modelway_router::{Router, RouterOptions, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Endpoint, PATIENCE, client, eventually, get, infer, loopback, send};

fn spec(generation: i64, arms: &[(&str, u32)]) -> RouteTableSpec {
    let arms: Vec<Value> = arms
        .iter()
        .map(|(name, weight)| json!({ "name": name, "weight": weight, "service": format!("digits-{name}") }))
        .collect();
    let document = json!({ "version": 1, "generation": generation, "inference": "digits", "epoch": 1, "salt": "uid",
        "arms": arms, "sticky": [{ "header": "x-user" }] });
    serde_json::from_value(document).unwrap()
}

fn slice(arm: &str, endpoints: &[(SocketAddr, bool)]) -> EndpointSlice {
    let port = endpoints.first().map_or(8080, |(address, _)| address.port());
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(address, ready)| json!({ "addresses": [address.ip().to_string()], "conditions": { "ready": ready } }))
        .collect();
    let slice = json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": format!("digits-{arm}-1"), "labels": { "kubernetes.io/service-name": format!("digits-{arm}") } },
        "ports": [{ "name": "http", "port": port, "protocol": "TCP" }], "endpoints": endpoints });
    serde_json::from_value(slice).unwrap()
}

/// A router whose only arm sleeps and wakes, on an API server of its own.
pub struct World {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    slices: Api<EndpointSlice>,
    endpoint: Endpoint,
    _folder: tempfile::TempDir,
    _stop: tokio_util::sync::DropGuard,
}

impl World {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer::open(Options::new(folder.path())).unwrap();
        let crds = modelway_api::crds::crds();
        let crds: Vec<Value> = crds.iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
        server.install_crds(&crds).await.unwrap();
        let kube = server.client("default");
        let tables: Api<RouteTable> = Api::namespaced(kube.clone(), "default");
        let slices: Api<EndpointSlice> = Api::namespaced(kube.clone(), "default");
        let mut table = spec(1, &[("v1", 1)]);
        table.arms[0].state = modelway_api::route_table::ArmState::Asleep;
        tables.create(&PostParams::default(), &RouteTable::new("digits", table)).await.unwrap();
        slices.create(&PostParams::default(), &slice("v1", &[])).await.unwrap();
        let source = Source::Kube { client: kube, namespace: "default".into(), inference: "digits".into() };
        let router = Router::bind(RouterOptions::new(loopback(), loopback(), source)).await.unwrap();
        let (address, admin) = (router.address(), router.admin_address());
        let token = CancellationToken::new();
        tokio::spawn(router.serve(token.clone()));
        eventually("ready", || async { get(admin, "/readyz").await.0 == 200 }).await;
        let endpoint = Endpoint::named("v1").await;
        Self { address, admin, slices, endpoint, _folder: folder, _stop: token.drop_guard() }
    }

    /// The arm has no endpoint any more.
    pub async fn sleep(&mut self) {
        self.put(&[]).await;
        eventually("asleep", || async {
            let config: Value = serde_json::from_str(&get(self.admin, "/config").await.1).unwrap();
            config["arms"][0]["endpoints"] == json!([])
        })
        .await;
    }

    /// The arm has its endpoint; nothing is awaited but the write.
    pub async fn wake(&mut self) {
        self.put(&[(self.endpoint.address, true)]).await;
    }

    async fn put(&self, endpoints: &[(SocketAddr, bool)]) {
        let slice = serde_json::to_value(slice("v1", endpoints)).unwrap();
        let parts = json!({ "ports": slice["ports"], "endpoints": slice["endpoints"] });
        self.slices.patch("digits-v1-1", &PatchParams::default(), &Patch::Merge(parts)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_the_table_and_the_endpoints_of_an_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let crds: Vec<Value> = modelway_api::crds::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    server.install_crds(&crds).await.unwrap();
    let kube = server.client("default");
    let tables: Api<RouteTable> = Api::namespaced(kube.clone(), "default");
    let slices: Api<EndpointSlice> = Api::namespaced(kube.clone(), "default");

    let source = Source::Kube { client: kube, namespace: "default".into(), inference: "digits".into() };
    let mut options = RouterOptions::new(loopback(), loopback(), source);
    options.drain = Duration::from_millis(100);
    let router = Router::bind(options).await.unwrap();
    let (address, admin) = (router.address(), router.admin_address());
    let token = CancellationToken::new();
    let ended = tokio::spawn(router.serve(token.clone()));
    eventually("no table is said", || async { get(admin, "/config").await.1.contains("does not exist") }).await;
    assert_eq!(get(admin, "/readyz").await.0, 503);

    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let post = PostParams::default();
    tables.create(&post, &RouteTable::new("digits", spec(1, &[("v1", 1)]))).await.unwrap();
    eventually("ready", || async { get(admin, "/readyz").await.0 == 200 }).await;
    let client = client();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { send(&client, infer(address, 1)).await }
    });
    // The request is held until its arm has an endpoint.
    slices.create(&post, &slice("v1", &[(v1.address, true)])).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok((200, "v1".into())));

    let config = || async { serde_json::from_str::<Value>(&get(admin, "/config").await.1).unwrap() };
    slices.create(&post, &slice("v2", &[(v2.address, true)])).await.unwrap();
    let merge = |spec: RouteTableSpec| Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    tables.patch("digits", &params, &merge(spec(2, &[("v2", 1)]))).await.unwrap();
    eventually("the second arm takes over", || async {
        config().await["arms"][0]["endpoints"][0] == v2.address.to_string()
    })
    .await;
    assert_eq!(send(&client, infer(address, 1)).await, Ok((200, "v2".into())));

    tables.patch("digits", &params, &merge(spec(1, &[("v1", 1)]))).await.unwrap();
    eventually("an older one is refused", || async { config().await["refused"]["generation"] == 1 }).await;
    tables.delete("digits", &DeleteParams::default()).await.unwrap();
    eventually("its absence is said", || async { config().await["sourceProblems"][0].is_string() }).await;
    assert_eq!(send(&client, infer(address, 1)).await, Ok((200, "v2".into())));

    // Another object: generations start again.
    tables.create(&post, &RouteTable::new("digits", spec(1, &[("v1", 1), ("v2", 0)]))).await.unwrap();
    eventually("a new object counts from anew", || async { config().await["generation"] == 1 }).await;
    eventually("its endpoints are known", || async {
        config().await["arms"][0]["endpoints"][0] == v1.address.to_string()
    })
    .await;
    assert_eq!(send(&client, infer(address, 1)).await, Ok((200, "v1".into())));

    token.cancel();
    assert!(tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().is_ok());
}
