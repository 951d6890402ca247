//! A world that obeys plans, with somebody who plays the workload controllers.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use modelway_plan::{Action, Context, Key, Kind, Plan, Settings, World, job_source::built_in, json as read};
use serde_json::{Value, json};

pub const NAMESPACE: &str = "default";

pub struct Simulation {
    pub world: World,
    pub settings: Settings,
    pub now: Timestamp,
    pub events: Vec<String>,
    /// Every generation of every route table, in order.
    pub generations: Vec<i64>,
    /// Deployments whose number of pods has another owner.
    pub handed_over: BTreeSet<Key>,
    counter: u64,
}

impl Simulation {
    pub fn new() -> Self {
        let settings = Settings {
            default_registry: Some("127.0.0.1:5553".to_owned()),
            plain_http: vec!["127.0.0.1:5553".to_owned()],
            allowed_host_paths: vec!["/data".to_owned()],
            ..Settings::default()
        };
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let (world, events, generations) = (World::default(), Vec::new(), Vec::new());
        Self { world, settings, now, events, generations, handed_over: BTreeSet::new(), counter: 0 }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += SignedDuration::try_from(time).unwrap();
    }

    /// Puts an object in, as a user or a workload controller would.
    pub fn put(&mut self, mut object: Value) {
        let key = Key::of(&object).unwrap();
        self.counter += 1;
        let old = self.world.object(&key).cloned();
        let spec = object["spec"].clone();
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(key.namespace);
        metadata["resourceVersion"] = self.counter.to_string().into();
        if let Some(old) = &old {
            metadata["uid"] = old["metadata"]["uid"].clone();
            metadata["creationTimestamp"] = old["metadata"]["creationTimestamp"].clone();
            let generation = read::number(old, "/metadata/generation");
            metadata["generation"] = (generation + i64::from(old["spec"] != spec)).into();
            if object.get("status").is_none() {
                object["status"] = old["status"].clone();
            }
        } else {
            metadata["uid"] = format!("{:05x}-{}", self.counter * 7_919 % 0xf_ffff, key.name).into();
            metadata["creationTimestamp"] = self.now.to_string().into();
            metadata["generation"] = 1.into();
        }
        if key.kind == Kind::RouteTable {
            self.generations.push(read::number(&object, "/spec/generation"));
        }
        self.world.insert(object);
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.world.get(kind, NAMESPACE, name)
    }

    pub fn edit(&mut self, kind: Kind, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.get(kind, name).unwrap_or_else(|| panic!("{kind:?} {name} is missing")).clone();
        edit(&mut object);
        self.put(object);
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.world.list(kind, NAMESPACE).map(|object| read::name(object).to_owned()).collect()
    }

    pub fn plan(&self, key: &Key) -> Plan {
        let cx = Context { world: &self.world, settings: &self.settings, now: self.now, entropy: [7; 16] };
        match key.kind {
            Kind::Job => modelway_plan::publish::plan(&cx, &built_in(), key),
            Kind::ModelVersion => modelway_plan::model_version::plan(&cx, key),
            Kind::Model => modelway_plan::model::plan(&cx, key),
            Kind::Inference => modelway_plan::serving::plan(&cx, key),
            Kind::ProfilingExperiment => modelway_plan::profiling::experiment::turn(&cx, key).plan,
            Kind::Trial => modelway_plan::profiling::trial::plan(&cx, key),
            _ => Plan::default(),
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        [Kind::Job, Kind::ModelVersion, Kind::Model, Kind::Inference, Kind::ProfilingExperiment, Kind::Trial]
            .into_iter()
            .flat_map(|kind| self.world.keys(kind).cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Plans one key and applies the plan. Returns whether anything was done.
    pub fn turn(&mut self, key: &Key) -> bool {
        let plan = self.plan(key);
        let acted = plan.actions.iter().any(|action| !self.is_there(action));
        for action in plan.actions {
            if !self.apply(action) {
                break;
            }
        }
        acted
    }

    /// Whether the action makes an object that is there: the server says so, and nothing happens.
    fn is_there(&self, action: &Action) -> bool {
        matches!(action, Action::Create(object) if self.world.object(&Key::of(object).unwrap()).is_some())
    }

    /// Plans every key until nothing is left to do.
    pub fn settle(&mut self) {
        for _ in 0..40 {
            let acted = self.keys().iter().map(|key| self.turn(key)).filter(|acted| *acted).count();
            if acted == 0 {
                return;
            }
        }
        let rest: Vec<_> = self.keys().iter().map(|key| (key.clone(), self.plan(key).actions)).collect();
        panic!("planning does not converge: {rest:#?}");
    }

    /// Settles, lets the workloads catch up, and again, until all is quiet.
    pub fn run(&mut self) {
        for _ in 0..10 {
            self.settle();
            self.finish_builds();
            self.roll_out();
            self.pass(Duration::from_secs(6));
        }
        self.settle();
    }

    fn apply(&mut self, action: Action) -> bool {
        match action {
            Action::Create(object) => {
                if self.world.object(&Key::of(&object).unwrap()).is_none() {
                    self.put(object);
                }
            }
            Action::Apply(object) => self.put(self.with_replicas(object)),
            Action::HandOver(object) => {
                self.handed_over.insert(Key::of(&object).unwrap());
            }
            Action::Replace(object) => {
                let live = self.world.object(&Key::of(&object).unwrap()).cloned();
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                if live.as_ref().map(version) != Some(version(&object)) {
                    return false;
                }
                self.put(object);
            }
            Action::Patch { key, patch } => {
                let Some(mut live) = self.world.object(&key).cloned() else { return false };
                if live["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"] {
                    return false;
                }
                merge(&mut live, &patch);
                self.put(live);
            }
            Action::Status(object) => {
                let Some(mut live) = self.world.object(&Key::of(&object).unwrap()).cloned() else { return false };
                live["status"] = object["status"].clone();
                self.put(live);
            }
            Action::Delete { key, uid } => {
                if self.world.object(&key).is_some_and(|live| read::uid(live) == uid) {
                    self.world.remove(&key);
                }
            }
            Action::Event(event) => self.events.push(event.reason.to_string()),
        }
        true
    }

    /// A number of pods that nobody owns any more is 1 again.
    fn with_replicas(&self, mut object: Value) -> Value {
        let key = Key::of(&object).unwrap();
        if key.kind == Kind::Deployment && object["spec"]["replicas"].is_null() {
            let live = self.world.object(&key).map(|live| live["spec"]["replicas"].clone());
            let kept = live.filter(|_| self.handed_over.contains(&key));
            object["spec"]["replicas"] = kept.unwrap_or_else(|| 1.into());
        }
        object
    }

    /// A training job that writes to a claim.
    pub fn train(&mut self, name: &str) {
        self.put(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"modelway.io/model": "digits"}},
            "spec": {"template": {"spec": {
                "containers": [{"name": "train", "image": "trainer:1",
                    "env": [{"name": "OUTPUT_DIR", "value": "/output"}],
                    "volumeMounts": [{"name": "out", "mountPath": "/output"}]}],
                "volumes": [{"name": "out", "persistentVolumeClaim": {"claimName": name}}],
            }}},
        }));
    }

    /// Ends a job, with one pod and its termination message.
    pub fn end(&mut self, job: &str, succeeded: bool, message: &str) {
        let now = self.now.to_string();
        let live = self.get(Kind::Job, job).unwrap().clone();
        let (type_, phase, code) = if succeeded { ("Complete", "Succeeded", 0) } else { ("Failed", "Failed", 1) };
        self.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{job}-pod"), "namespace": NAMESPACE, "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": read::uid(&live), "controller": true}]},
            "spec": live["spec"]["template"]["spec"],
            "status": {"phase": phase, "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code, "message": message}}}]},
        }));
        self.edit(Kind::Job, job, |job| {
            let condition = json!({"type": type_, "status": "True", "reason": "X", "message": "it ended", "lastTransitionTime": now});
            job["status"] = json!({"conditions": [condition]});
            if succeeded {
                job["status"]["completionTime"] = now.into();
            }
        });
    }

    pub fn running_builds(&self) -> Vec<String> {
        let builds = self.world.list(Kind::Job, NAMESPACE).filter(|job| {
            read::annotation(job, "modelway.io/version-name").is_some() && job["status"]["conditions"].is_null()
        });
        builds.map(|job| read::name(job).to_owned()).collect()
    }

    /// Every running builder succeeds; equal sources have equal digests.
    pub fn finish_builds(&mut self) {
        for name in self.running_builds() {
            self.finish_build(&name);
        }
    }

    pub fn finish_build(&mut self, name: &str) {
        let job = self.get(Kind::Job, name).unwrap();
        let command: Vec<&str> =
            read::items(job, "/spec/template/spec/containers/0/command").map(|word| word.as_str().unwrap()).collect();
        let after = |flag: &str| command[command.iter().position(|word| *word == flag).unwrap() + 1].to_owned();
        let digest = format!("sha256:{}", digest(&job["spec"]["template"]["spec"]["volumes"][0]));
        let result = json!({"image": format!("{}@{digest}", after("--repository")), "digest": digest, "tag": after("--tag"),
            "sizeBytes": 10, "files": 2, "format": "onnx", "upload": {"sentBytes": 10, "seconds": 1.0}, "metrics": {"accuracy": 0.9}});
        self.end(name, true, &result.to_string());
    }

    /// Every Deployment gets its pods, every Service its address.
    pub fn roll_out(&mut self) {
        for name in self.names(Kind::Deployment) {
            self.edit(Kind::Deployment, &name, |deployment| {
                let replicas = deployment["spec"]["replicas"].clone();
                deployment["status"] = json!({"observedGeneration": deployment["metadata"]["generation"],
                    "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
            });
        }
        for name in self.names(Kind::Service) {
            self.edit(Kind::Service, &name, |service| service["spec"]["clusterIP"] = "127.1.128.1".into());
        }
    }

    pub fn condition(&self, kind: Kind, name: &str, type_: &str) -> (String, String) {
        let object = self.get(kind, name).unwrap();
        let condition = read::condition(object, type_).unwrap_or(&Value::Null);
        (read::text(condition, "/status").to_owned(), read::text(condition, "/reason").to_owned())
    }

    pub fn arms(&self, inference: &str) -> Vec<(String, i64)> {
        let table = self.get(Kind::RouteTable, inference);
        let arms = table.into_iter().flat_map(|table| read::items(table, "/spec/arms"));
        arms.map(|arm| (read::name_of(arm).to_owned(), read::number(arm, "/weight"))).collect()
    }
}

/// A digest that depends on the value alone.
pub fn digest(value: &Value) -> String {
    read::hash(value).repeat(4)
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().shift_remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
