//! An API server and a controller in this process, and hands to play the workloads with.

use std::{future::Future, time::Duration};

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use modelway_apiserver::{ApiServer, Options};
use modelway_controller::{ControllerOptions, Settings};
use modelway_plan::{Key, Kind, json as read};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const NAMESPACE: &str = "default";
const DEADLINE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);

pub struct Platform {
    server: ApiServer,
    pub client: Client,
    controller: Option<Running>,
    _folder: tempfile::TempDir,
}

/// A controller in this process.
pub struct Running {
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// A controller as these options say.
    pub fn start(options: ControllerOptions) -> Self {
        let cancel = CancellationToken::new();
        let running = modelway_controller::run(options, cancel.clone());
        let task = tokio::spawn(async move { Box::pin(running).await.unwrap() });
        Self { cancel, task }
    }

    /// As SIGTERM does.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }

    /// As kill -9 does: nothing more is sent.
    pub async fn kill(self) {
        self.task.abort();
        _ = self.task.await;
    }
}

/// Our definitions.
pub fn definitions() -> Vec<Value> {
    modelway_api::crds().iter().map(|definition| serde_json::to_value(definition).unwrap()).collect()
}

/// Settings of the tests.
pub fn options(client: Client) -> ControllerOptions {
    let settings = Settings {
        default_registry: Some("127.0.0.1:5553".to_owned()),
        plain_http: vec!["127.0.0.1:5553".to_owned()],
        retire_after: Duration::from_millis(200),
        ..Settings::default()
    };
    ControllerOptions { settings, ..ControllerOptions::new(client) }
}

impl Platform {
    pub async fn start() -> Self {
        let mut platform = Self::with_kinds().await;
        platform.start_controller();
        platform
    }

    /// A server that does not know our kinds, without a controller.
    pub fn without_kinds() -> Self {
        Self::open(|_| {})
    }

    fn open(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path());
        change(&mut options);
        let server = ApiServer::open(options).unwrap();
        let client = server.client(NAMESPACE);
        Self { server, client, controller: None, _folder: folder }
    }

    pub async fn install_kinds(&self) {
        self.install(&definitions()).await;
    }

    pub async fn install(&self, definitions: &[Value]) {
        self.server.install_crds(definitions).await.unwrap();
    }

    /// A server that knows our kinds, without a controller.
    pub async fn with_kinds() -> Self {
        let platform = Self::without_kinds();
        platform.install_kinds().await;
        platform
    }

    /// The same, with a server that remembers only so many events for watches that come back.
    pub async fn with_short_history(events: u64) -> Self {
        let platform = Self::open(|options| options.events_kept = events);
        platform.install_kinds().await;
        platform
    }

    pub fn start_controller(&mut self) {
        self.controller = Some(Running::start(options(self.client.clone())));
    }

    pub async fn stop_controller(&mut self) {
        self.controller.take().unwrap().stop().await;
    }

    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (group, version, name, plural) = kind.names();
        let resource = kube::api::ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: kind.api_version(),
            kind: name.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let object = self.api(kind).get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(object).unwrap())
    }

    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub async fn names(&self, kind: Kind) -> Vec<String> {
        self.list(kind).await.iter().map(|object| read::name(object).to_owned()).collect()
    }

    pub async fn create(&self, object: Value) -> Value {
        let kind = Key::of(&object).unwrap().kind;
        let object = serde_json::from_value(object).unwrap();
        let created = self.api(kind).create(&PostParams::default(), &object).await.unwrap();
        serde_json::to_value(created).unwrap()
    }

    pub async fn apply(&self, object: &Value) -> Value {
        let key = Key::of(object).unwrap();
        let params = PatchParams::apply("test").force();
        let applied = self.api(key.kind).patch(&key.name, &params, &Patch::Apply(object)).await.unwrap();
        serde_json::to_value(applied).unwrap()
    }

    pub async fn set_status(&self, kind: Kind, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the probe finds something.
    pub async fn eventually<T, F: Future<Output = Option<T>>>(&self, what: &str, mut probe: impl FnMut() -> F) -> T {
        let wait = async {
            loop {
                if let Some(found) = probe().await {
                    return found;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        if let Ok(found) = tokio::time::timeout(DEADLINE, wait).await {
            return found;
        }
        panic!("{what} did not happen within {DEADLINE:?}: {}", self.picture().await)
    }

    /// Waits until an object is as the test says.
    pub async fn until(&self, kind: Kind, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{} {name}", kind.as_str());
        self.eventually(&what, || async { self.get(kind, name).await.filter(&is_so) }).await
    }

    async fn picture(&self) -> String {
        let mut picture = Vec::new();
        for kind in [Kind::Job, Kind::ModelVersion, Kind::Inference, Kind::RouteTable, Kind::Deployment] {
            for object in self.list(kind).await {
                picture.push(format!("{} {} {}", kind.as_str(), read::name(&object), object["status"]));
            }
        }
        picture.join("\n")
    }

    /// A training job that has opted in.
    pub async fn train(&self, name: &str) {
        self.create(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"modelway.io/model": "digits"}},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "train", "image": "trainer:1", "command": ["train"],
                    "env": [{"name": "OUTPUT_DIR", "value": "/output"}],
                    "volumeMounts": [{"name": "out", "mountPath": "/output"}]}],
                "volumes": [{"name": "out", "persistentVolumeClaim": {"claimName": name}}],
            }}},
        }))
        .await;
    }

    /// Ends a job with one pod, as Job controller and kubelet would.
    pub async fn end(&self, job: &str, succeeded: bool, message: &str) {
        let live = self.get(Kind::Job, job).await.unwrap();
        let pod = format!("{job}-pod");
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": read::uid(&live), "controller": true});
        self.create(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": NAMESPACE, "ownerReferences": [owner]},
            "spec": live["spec"]["template"]["spec"]}))
            .await;
        let (type_, phase, code) = if succeeded { ("Complete", "Succeeded", 0) } else { ("Failed", "Failed", 1) };
        let now = modelway_api::conditions::whole_second(k8s_openapi::jiff::Timestamp::now()).to_string();
        let terminated = json!({"exitCode": code, "message": message, "startedAt": now, "finishedAt": now});
        let containers = json!([{"name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": terminated}}]);
        self.set_status(Kind::Pod, &pod, &json!({"phase": phase, "containerStatuses": containers})).await;
        let condition =
            json!({"type": type_, "status": "True", "reason": "X", "message": "it ended", "lastTransitionTime": now});
        let mut status = json!({"startTime": now, "conditions": [condition]});
        if succeeded {
            status["completionTime"] = now.into();
        }
        self.set_status(Kind::Job, job, &status).await;
    }

    /// The builder Job that has not ended, once there is one.
    pub async fn build(&self) -> String {
        self.eventually("a builder Job", || async {
            let jobs = self.list(Kind::Job).await;
            let build = jobs.iter().find(|job| {
                read::annotation(job, "modelway.io/version-name").is_some()
                    && read::condition(job, "Complete").is_none()
                    && read::condition(job, "Failed").is_none()
            });
            build.map(|job| read::name(job).to_owned())
        })
        .await
    }

    /// The running builder succeeds with that digest.
    pub async fn finish_build(&self, fill: char) {
        let digest = format!("sha256:{}", fill.to_string().repeat(64));
        let result = json!({"image": format!("127.0.0.1:5553/default/digits@{digest}"), "digest": digest, "tag": "t",
            "sizeBytes": 10, "files": 2, "format": "onnx", "metrics": {"accuracy": 0.5}});
        let build = self.build().await;
        self.end(&build, true, &result.to_string()).await;
    }

    /// A published version of a new training job.
    pub async fn publish(&self, job: &str, fill: char) -> String {
        self.train(job).await;
        self.end(job, true, "").await;
        self.finish_build(fill).await;
        let prefix = format!("mv-{job}-");
        self.eventually("a published version", || async {
            let versions = self.list(Kind::ModelVersion).await;
            let done = versions.iter().find(|version| {
                read::name(version).starts_with(&prefix)
                    && read::text(version, "/status/imageBuildPhase") == "ImageBuildSucceeded"
            });
            done.map(|version| read::name(version).to_owned())
        })
        .await
    }

    /// The Deployment's pods are as it says.
    pub async fn roll_out(&self, name: &str) {
        let live = self.until(Kind::Deployment, name, |_| true).await;
        let replicas = &live["spec"]["replicas"];
        let status = json!({"observedGeneration": live["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
        self.set_status(Kind::Deployment, name, &status).await;
    }

    pub async fn give_address(&self, service: &str) {
        self.until(Kind::Service, service, |_| true).await;
        let patch = Patch::Merge(json!({"spec": {"clusterIP": "127.1.128.9"}}));
        self.api(Kind::Service).patch(service, &PatchParams::default(), &patch).await.unwrap();
    }
}
