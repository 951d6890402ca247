//! What all controllers share: one cache per kind, one queue per controller, and the way to write.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::cache::{Cache, Change};
use crate::call::{CallError, call};
use crate::events::Recorder;
use crate::key::Key;
use crate::queue::Queue;
use crate::routes;

/// Name in `managedFields` and in Events.
pub(crate) const MANAGER: &str = "modelway-workloads";

/// Caches, one per kind.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) pods: Cache<Pod>,
    pub(crate) jobs: Cache<Job>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) services: Cache<Service>,
    pub(crate) slices: Cache<EndpointSlice>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
}

/// Queues, one per controller.
#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) jobs: Queue,
    pub(crate) replica_sets: Queue,
    pub(crate) deployments: Queue,
    pub(crate) services: Queue,
    pub(crate) endpoints: Queue,
    pub(crate) forwards: Queue,
    pub(crate) claims: Queue,
    pub(crate) budgets: Queue,
}

/// The shared state.
pub(crate) struct Hub {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) queues: Queues,
    pub(crate) recorder: Recorder,
    /// Told when a first list has been read.
    pub(crate) listed: watch::Sender<()>,
}

/// A kind the controllers watch.
pub(crate) trait Watched:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    fn cache(caches: &Caches) -> &Cache<Self>;
    /// Wakes the controllers that care about the change.
    fn route(hub: &Hub, change: &Change<Self>);
}

macro_rules! watched {
    ($kind:ty, $field:ident, $route:path) => {
        impl Watched for $kind {
            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$field
            }

            fn route(hub: &Hub, change: &Change<Self>) {
                $route(hub, change);
            }
        }
    };
}

watched!(Pod, pods, routes::pod);
watched!(Job, jobs, routes::job);
watched!(ReplicaSet, replica_sets, routes::replica_set);
watched!(Deployment, deployments, routes::deployment);
watched!(Service, services, routes::service);
watched!(EndpointSlice, slices, routes::slice);
watched!(PersistentVolumeClaim, claims, routes::claim);
watched!(PodDisruptionBudget, budgets, routes::budget);

impl Hub {
    pub(crate) fn new(client: Client, recorder: Recorder) -> Arc<Self> {
        let (listed, _) = watch::channel(());
        Arc::new(Self { client, caches: Caches::default(), queues: Queues::default(), recorder, listed })
    }

    /// Every kind has been listed once.
    pub(crate) fn is_synced(&self) -> bool {
        let caches = &self.caches;
        caches.pods.is_ready()
            && caches.jobs.is_ready()
            && caches.replica_sets.is_ready()
            && caches.deployments.is_ready()
            && caches.services.is_ready()
            && caches.slices.is_ready()
            && caches.claims.is_ready()
            && caches.budgets.is_ready()
    }

    /// Takes in a watch event.
    pub(crate) fn feed<K: Watched>(&self, event: Event<K>) {
        for change in K::cache(&self.caches).apply(event) {
            K::route(self, &change);
        }
    }

    fn observe<K: Watched>(&self, object: K) {
        if let Some(change) = K::cache(&self.caches).observe(object) {
            K::route(self, &change);
        }
    }

    fn forget<K: Watched>(&self, key: &Key, uid: &str) {
        if let Some(change) = K::cache(&self.caches).forget(key, uid) {
            K::route(self, &change);
        }
    }

    fn api<K: Watched>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn create<K: Watched>(&self, object: &K) -> Result<(String, String), CallError> {
        let namespace = object.namespace().unwrap_or_default();
        let target = target::<K>(&namespace, object.meta().name.as_deref().unwrap_or("(new)"));
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let created = call("create", &target, self.api::<K>(&namespace).create(&parameters, object)).await?;
        let identity = (created.name_any(), created.uid().unwrap_or_default());
        self.observe(created);
        Ok(identity)
    }

    /// Writes the status; fails with a conflict when the object changed since it was read.
    pub(crate) async fn replace_status<K: Watched>(&self, object: &K) -> Result<(), CallError> {
        let key = Key::of(object);
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let api = self.api::<K>(&key.namespace);
        let work = api.replace_status(&key.name, &parameters, object);
        self.settle(
            &key,
            object.meta().uid.as_deref(),
            call("write status of", &target::<K>(&key.namespace, &key.name), work).await,
        )
    }

    /// Replaces the object; fails with a conflict when it changed since it was read.
    pub(crate) async fn replace<K: Watched>(&self, object: &K) -> Result<(), CallError> {
        let key = Key::of(object);
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let api = self.api::<K>(&key.namespace);
        let work = api.replace(&key.name, &parameters, object);
        self.settle(
            &key,
            object.meta().uid.as_deref(),
            call("replace", &target::<K>(&key.namespace, &key.name), work).await,
        )
    }

    /// Merge patch. Put `metadata.resourceVersion` into the patch to make it conditional.
    pub(crate) async fn patch<K: Watched>(&self, key: &Key, uid: &str, patch: &Value) -> Result<(), CallError> {
        let parameters = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let api = self.api::<K>(&key.namespace);
        let patch = Patch::Merge(patch);
        let work = api.patch(&key.name, &parameters, &patch);
        self.settle(key, Some(uid), call("patch", &target::<K>(&key.namespace, &key.name), work).await)
    }

    /// Deletes exactly this object; one that is gone already counts as deleted.
    pub(crate) async fn delete<K: Watched>(&self, key: &Key, uid: &str) -> Result<(), CallError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::background()
        };
        let api = self.api::<K>(&key.namespace);
        let work = api.delete(&key.name, &parameters);
        let left = match call("delete", &target::<K>(&key.namespace, &key.name), work).await {
            Ok(deleted) => deleted.left(),
            Err(CallError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        match left {
            Some(object) => self.observe(object),
            None => self.forget::<K>(key, uid),
        }
        Ok(())
    }

    /// The object as the server has it now.
    pub(crate) async fn fetch<K: Watched>(&self, key: &Key) -> Result<Option<K>, CallError> {
        let api = self.api::<K>(&key.namespace);
        call("get", &target::<K>(&key.namespace, &key.name), api.get_opt(&key.name)).await
    }

    fn settle<K: Watched>(&self, key: &Key, uid: Option<&str>, result: Result<K, CallError>) -> Result<(), CallError> {
        match result {
            Ok(object) => {
                self.observe(object);
                Ok(())
            }
            Err(error) => {
                if let (true, Some(uid)) = (error.is_not_found(), uid) {
                    self.forget::<K>(key, uid);
                }
                Err(error)
            }
        }
    }
}

fn target<K: Watched>(namespace: &str, name: &str) -> String {
    format!("{} {namespace}/{name}", K::kind(&()))
}
