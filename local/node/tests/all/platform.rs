//! A platform for one test.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Event, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use modelway_apiserver::{ApiServer, Options};
use modelway_node::{BackoffRule, NodeOptions, PodCidr, Timing};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest wait for anything; far above what is needed.
const LIMIT: Duration = Duration::from_secs(30);

pub struct Platform {
    pub client: Client,
    pub data: PathBuf,
    pub server: ApiServer,
    cancel: CancellationToken,
    node: JoinHandle<Result<(), modelway_node::NodeError>>,
    _folder: Option<TempDir>,
}

/// Each platform gets a loopback block of its own, so that tests do not meet.
fn block() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let process = u8::try_from(std::process::id() % 20).unwrap();
    100 + (process * 7 + NEXT.fetch_add(1, Ordering::Relaxed)) % 150
}

pub fn timing() -> Timing {
    let rule = |base| BackoffRule { base, limit: Duration::from_secs(1), reset: Duration::from_mins(10) };
    Timing {
        restart: rule(Duration::from_millis(400)),
        pull: rule(Duration::from_millis(100)),
        blocked: rule(Duration::from_millis(50)),
        refresh: Duration::from_millis(200),
        probe_period: Some(Duration::from_millis(200)),
        ..Timing::default()
    }
}

pub fn options(client: Client, data: &Path) -> NodeOptions {
    let cidr = PodCidr::new(Ipv4Addr::new(127, block(), 0, 0), 17).unwrap();
    NodeOptions {
        executable_args: vec![],
        image: "modelway:test".to_owned(),
        timing: timing(),
        ..NodeOptions::new(client, data.to_owned(), env!("CARGO_BIN_EXE_modelway-shim").into(), cidr)
    }
}

impl Platform {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut NodeOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let platform = Self::start_on(folder.path(), change).await;
        Self { _folder: Some(folder), ..platform }
    }

    pub async fn start_on(data: &Path, change: impl FnOnce(&mut NodeOptions)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = open(data).await;
        let client = server.client("default");
        let mut options = options(client.clone(), data);
        change(&mut options);
        let cancel = CancellationToken::new();
        let node = tokio::spawn(modelway_node::run(options, cancel.clone()));
        Self { client, data: data.to_owned(), server, cancel, node, _folder: None }
    }

    pub async fn stop(self) {
        self.cancel.cancel();
        self.node.await.unwrap().unwrap();
        self.server.shutdown();
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pod whose containers run as processes.
    pub async fn create(&self, name: &str, spec: Value) -> Pod {
        self.create_with(name, spec, json!({})).await
    }

    pub async fn create_with(&self, name: &str, spec: Value, metadata: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "annotations": {"modelway.io/run-as-process": "true"}}, "spec": spec
        });
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Creates any built-in object that the node reads.
    pub async fn put<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        Api::namespaced(self.client.clone(), "default").create(&PostParams::default(), &object).await.unwrap()
    }

    /// Waits until the pod is as wanted.
    pub async fn wait(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let begin = tokio::time::Instant::now();
        let mut seen = None;
        while begin.elapsed() < LIMIT {
            let pod = self.pods().get_opt(name).await.unwrap();
            if let Some(pod) = &pod
                && holds(pod)
            {
                return pod.clone();
            }
            seen = pod;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("pod {name} is not {what} after {LIMIT:?}: {}", serde_json::to_string_pretty(&seen).unwrap());
    }

    pub async fn wait_phase(&self, name: &str, phase: &str) -> Pod {
        self.wait(name, phase, |pod| self::phase(pod) == phase).await
    }

    pub async fn wait_gone(&self, name: &str) {
        wait_until(&format!("pod {name} is gone"), async || self.pods().get_opt(name).await.unwrap().is_none()).await;
    }

    pub async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn events(&self, pod: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(pod)).collect()
    }

    pub async fn wait_event(&self, pod: &str, reason: &str) -> Event {
        let found = async || self.events(pod).await.into_iter().find(|event| event.reason.as_deref() == Some(reason));
        wait_until(&format!("event {reason} of {pod}"), async || found().await.is_some()).await;
        found().await.unwrap()
    }

    pub async fn logs(
        &self,
        pod: &Pod,
        change: impl FnOnce(&mut modelway_node::logs::LogRequest),
    ) -> Result<String, String> {
        use futures::TryStreamExt;
        let mut request = modelway_node::logs::LogRequest {
            namespace: "default".to_owned(),
            pod: pod.metadata.name.clone().unwrap(),
            uid: pod.metadata.uid.clone().unwrap(),
            ..Default::default()
        };
        change(&mut request);
        let stream = modelway_node::logs::open(&self.data, request).await.map_err(|error| error.to_string())?;
        let read = stream.try_fold(Vec::new(), async |mut all, bytes| {
            all.extend_from_slice(&bytes);
            Ok(all)
        });
        Ok(String::from_utf8(tokio::time::timeout(LIMIT, read).await.unwrap().unwrap()).unwrap())
    }
}

/// Opens the store; that of an earlier life may take a moment to let go.
async fn open(data: &Path) -> ApiServer {
    let begin = tokio::time::Instant::now();
    loop {
        match ApiServer::open(Options::new(data)) {
            Ok(server) => return server,
            Err(error) => assert!(begin.elapsed() < LIMIT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < LIMIT {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not so after {LIMIT:?}: {what}");
}

/// A shell script as a command; Kubernetes reads `$$` as an escaped `$`.
pub fn sh(script: &str) -> Value {
    json!(["sh", "-c", script.replace("$$", "$$$$")])
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn container(pod: &Pod, index: usize) -> Option<&k8s_openapi::api::core::v1::ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.get(index)
}

pub fn ended(pod: &Pod, index: usize) -> ContainerStateTerminated {
    container(pod, index).unwrap().state.as_ref().unwrap().terminated.clone().unwrap()
}

pub fn waiting(pod: &Pod) -> Option<(String, String)> {
    let waiting = container(pod, 0)?.state.as_ref()?.waiting.clone()?;
    Some((waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default()))
}

pub fn condition(pod: &Pod, name: &str) -> Option<k8s_openapi::api::core::v1::PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name).cloned()
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Reads a process id that a container wrote into `file`, once it is there.
pub async fn pid_in(file: &Path) -> i32 {
    let read = || std::fs::read_to_string(file).ok()?.trim().parse::<i32>().ok();
    wait_until(&format!("a process id in {}", file.display()), async || read().is_some()).await;
    read().unwrap()
}
