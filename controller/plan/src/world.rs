//! The observed objects, as JSON: what a planner sees and a test can build by hand.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::replicas::Load;

/// A kind of object that planners read or write.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    Namespace,
    /// Only those that tell why the pods of a Job are refused: nothing else has the words.
    Event,
    Pod,
    PersistentVolumeClaim,
    Secret,
    ConfigMap,
    Service,
    ServiceAccount,
    Job,
    Deployment,
    PodDisruptionBudget,
    RoleBinding,
    Model,
    ModelVersion,
    Inference,
    RouteTable,
    ProfilingExperiment,
    Trial,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::Namespace,
        Self::Event,
        Self::Pod,
        Self::PersistentVolumeClaim,
        Self::Secret,
        Self::ConfigMap,
        Self::Service,
        Self::ServiceAccount,
        Self::Job,
        Self::Deployment,
        Self::PodDisruptionBudget,
        Self::RoleBinding,
        Self::Model,
        Self::ModelVersion,
        Self::Inference,
        Self::RouteTable,
        Self::ProfilingExperiment,
        Self::Trial,
    ];

    /// Group (empty for core), version, kind, plural.
    pub const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::Event => ("", "v1", "Event", "events"),
            Self::Pod => ("", "v1", "Pod", "pods"),
            Self::PersistentVolumeClaim => ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::Secret => ("", "v1", "Secret", "secrets"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Self::PodDisruptionBudget => ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::RoleBinding => ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
            Self::Job => ("batch", "v1", "Job", "jobs"),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::Model => ("model.kubedl.io", "v1alpha1", "Model", "models"),
            Self::ModelVersion => ("model.kubedl.io", "v1alpha1", "ModelVersion", "modelversions"),
            Self::Inference => ("serving.kubedl.io", "v1alpha1", "Inference", "inferences"),
            Self::RouteTable => ("modelway.io", "v1alpha1", "RouteTable", "routetables"),
            Self::ProfilingExperiment => {
                ("morphling.kubedl.io", "v1alpha1", "ProfilingExperiment", "profilingexperiments")
            }
            Self::Trial => ("morphling.kubedl.io", "v1alpha1", "Trial", "trials"),
        }
    }

    /// `group/version`, or the version alone for core kinds.
    pub fn api_version(self) -> String {
        let (group, version, ..) = self.names();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    /// Whether planners look at such objects. Secrets and `ConfigMap`s are made and mounted, never read.
    pub const fn is_watched(self) -> bool {
        !matches!(self, Self::Secret | Self::ConfigMap)
    }

    /// The kind's name.
    pub const fn as_str(self) -> &'static str {
        self.names().2
    }

    /// The kind with that `apiVersion` and `kind`.
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|candidate| candidate.as_str() == kind && candidate.api_version() == api_version)
    }
}

/// Which object.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub kind: Kind,
    /// Empty for kinds without a namespace.
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// The key of that object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The key that a manifest carries; `None` for kinds that no planner knows.
    pub fn of(object: &Value) -> Option<Self> {
        let kind = Kind::find(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        let metadata = &object["metadata"];
        Some(Self::new(kind, metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str()?))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.kind.as_str(), self.name);
        }
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// A manifest that the API server refused, with its words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    /// The `modelway.io/applied` hash of what was refused.
    pub applied: String,
    pub message: String,
    /// Another try of the same manifest may be accepted: a quota has room again, a permission was given.
    pub may_pass: bool,
    /// When it was refused.
    pub at: Timestamp,
}

/// Observed objects. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct World {
    objects: BTreeMap<Key, Arc<Value>>,
    rejections: BTreeMap<Key, Rejection>,
    /// By Inference.
    loads: BTreeMap<Key, Load>,
    /// What pods may use of each node, by resource.
    nodes: Arc<[BTreeMap<String, String>]>,
}

impl World {
    /// Puts an object in, or replaces it; objects of unknown kinds are left out.
    pub fn insert(&mut self, object: Value) {
        if let Some(key) = Key::of(&object) {
            self.objects.insert(key, Arc::new(object));
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        self.objects.remove(key)
    }

    /// The object, if it has been seen.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.object(&Key::new(kind, namespace, name))
    }

    /// The object of that key.
    pub fn object(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key).map(Arc::as_ref)
    }

    /// All objects of a kind in a namespace, by name.
    pub fn list<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.objects
            .range(Key::new(kind, namespace, "")..)
            .take_while(move |(key, _)| key.kind == kind && key.namespace == namespace)
            .map(|(_, object)| object.as_ref())
    }

    /// Keys of all objects of a kind.
    pub fn keys(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        self.objects.range(Key::new(kind, "", "")..).take_while(move |(key, _)| key.kind == kind).map(|(key, _)| key)
    }

    /// Everything in one namespace, and the namespace itself.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self {
        let mut objects = BTreeMap::new();
        for kind in Kind::ALL {
            let range = self.objects.range(Key::new(kind, namespace, "")..);
            let inside = range.take_while(|(key, _)| key.kind == kind && key.namespace == namespace);
            objects.extend(inside.map(|(key, object)| (key.clone(), object.clone())));
        }
        let own = Key::new(Kind::Namespace, "", namespace);
        objects.extend(self.objects.get(&own).map(|object| (own, object.clone())));
        let rejections = self.rejections.iter().filter(|(key, _)| key.namespace == namespace);
        let loads = self.loads.iter().filter(|(key, _)| key.namespace == namespace);
        Self {
            objects,
            rejections: rejections.map(|(key, why)| (key.clone(), why.clone())).collect(),
            loads: loads.map(|(key, load)| (key.clone(), load.clone())).collect(),
            nodes: self.nodes.clone(),
        }
    }

    /// Remembers that the API server refused a manifest.
    pub fn reject(&mut self, key: Key, rejection: Rejection) {
        self.rejections.insert(key, rejection);
    }

    /// Forgets a refusal, after the object was accepted.
    pub fn accept(&mut self, key: &Key) {
        self.rejections.remove(key);
    }

    /// Why the API server last refused the object.
    pub fn rejection(&self, key: &Key) -> Option<&Rejection> {
        self.rejections.get(key)
    }

    /// What the routers of an Inference tell.
    pub fn load(&self, namespace: &str, inference: &str) -> Option<&Load> {
        self.loads.get(&Key::new(Kind::Inference, namespace, inference))
    }

    /// Takes in what the routers of an Inference tell; `None` forgets it.
    pub fn set_load(&mut self, inference: Key, load: Option<Load>) {
        match load {
            Some(load) => self.loads.insert(inference, load),
            None => self.loads.remove(&inference),
        };
    }

    /// What pods may use of each node, by resource; empty where nothing is known of nodes.
    pub fn nodes(&self) -> &[BTreeMap<String, String>] {
        &self.nodes
    }

    /// Takes in what pods may use of each node.
    pub fn set_nodes(&mut self, nodes: Arc<[BTreeMap<String, String>]>) {
        self.nodes = nodes;
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing has been seen.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}
