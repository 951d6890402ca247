//! An API server in a temporary folder with the controllers on it, and the hand of a node.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use modelway_apiserver::{ApiServer, Options};
use modelway_workloads::{Ipv4Cidr, WorkloadError, WorkloadOptions, run};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A test gives up after this.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Kinds of a namespace.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize
{
}

pub struct Cluster {
    pub client: Client,
    pub folder: tempfile::TempDir,
    pub block: Ipv4Cidr,
    controllers: Option<(CancellationToken, JoinHandle<Result<(), WorkloadError>>)>,
    _server: ApiServer,
}

impl Cluster {
    /// A new, empty one with running controllers. `net` keeps the addresses of tests apart.
    pub fn start(net: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer::open(Options::new(folder.path())).unwrap();
        let [low, high, ..] = std::process::id().to_le_bytes();
        let address = Ipv4Addr::new(127, 128 + ((low ^ high) & 0x3f), 128 + (net & 0x7f), 0);
        let block = Ipv4Cidr::new(address, 24).unwrap();
        let mut cluster = Self { client: server.client("default"), folder, block, controllers: None, _server: server };
        cluster.start_controllers();
        cluster
    }

    pub fn start_controllers(&mut self) {
        let token = CancellationToken::new();
        let mut options = WorkloadOptions::new(self.client.clone(), self.folder.path(), self.block);
        options.job_backoff_base = Duration::from_millis(200);
        self.controllers = Some((token.clone(), tokio::spawn(run(options, token))));
    }

    pub async fn stop_controllers(&mut self) {
        if let Some((token, task)) = self.controllers.take() {
            token.cancel();
            tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap().unwrap();
        }
    }

    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create<K: Namespaced>(&self, object: Value) -> K {
        self.api::<K>().create(&PostParams::default(), &from_value(object).unwrap()).await.unwrap()
    }

    pub async fn patch<K: Namespaced>(&self, name: &str, patch: Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn list<K: Namespaced>(&self) -> Vec<K> {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    /// Waits until the object is there and the condition holds.
    pub async fn wait<K: Namespaced>(&self, name: &str, mut holds: impl FnMut(&K) -> bool) -> K {
        let mut last = None;
        let wait = async {
            loop {
                last = self.api::<K>().get_opt(name).await.unwrap();
                if let Some(object) = last.clone().filter(|object| holds(object)) {
                    return object;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, wait).await;
        done.unwrap_or_else(|_| panic!("{name} never got there: {last:#?}"))
    }

    /// Waits until the list of pods, oldest first, satisfies the condition.
    pub async fn wait_pods(&self, mut holds: impl FnMut(&[Pod]) -> bool) -> Vec<Pod> {
        let mut last = Vec::new();
        let wait = async {
            loop {
                last = self.list::<Pod>().await;
                last.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
                if holds(&last) {
                    return last.clone();
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, wait).await;
        done.unwrap_or_else(|_| panic!("pods never got there: {last:#?}"))
    }

    pub async fn wait_event(&self, about: &str, reason: &str) -> Event {
        let wait = async {
            loop {
                let events = self.list::<Event>().await;
                let found = events.into_iter().find(|event| {
                    event.involved_object.name.as_deref() == Some(about) && event.reason.as_deref() == Some(reason)
                });
                if let Some(found) = found {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("no event {reason} about {about}"))
    }

    /// The node runs the pod.
    pub async fn run_pod(&self, name: &str, address: &str, ready: bool) {
        let since = k8s_openapi::jiff::Timestamp::now();
        let status = json!({"status": {
            "phase": "Running", "podIP": address,
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": since}]
        }});
        self.patch_pod_status(name, status).await;
    }

    /// The pod's program ends.
    pub async fn end_pod(&self, name: &str, code: i32) {
        let now = k8s_openapi::jiff::Timestamp::now();
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let status = json!({"status": {"phase": phase, "containerStatuses": [{
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "finishedAt": now}}
        }]}});
        self.patch_pod_status(name, status).await;
    }

    pub async fn patch_pod_status(&self, name: &str, status: Value) {
        self.api::<Pod>().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
}

pub fn name<K: Resource>(object: &K) -> String {
    object.name_any()
}
