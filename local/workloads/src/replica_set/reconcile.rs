//! Reads a set's world from the caches, asks for a plan and carries it out.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;

use super::decide::{ReplicaSetPlan, claims, decide};
use crate::adopt;
use crate::batch;
use crate::call::CallError;
use crate::events::Note;
use crate::hub::Hub;
use crate::key::Key;
use crate::pods;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};

/// The `ReplicaSet` controller.
pub(crate) struct ReplicaSetReconciler {
    hub: Arc<Hub>,
    /// Why the last creation failed, by key; only for sets that exist.
    failures: Mutex<HashMap<Key, String>>,
}

impl ReplicaSetReconciler {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, failures: Mutex::new(HashMap::new()) }
    }
}

impl Reconcile for ReplicaSetReconciler {
    const NAME: &'static str = "replica-set";

    fn queue(&self) -> &Queue {
        &self.hub.queues.replica_sets
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let Some(set) = self.hub.caches.replica_sets.get(key) else {
            self.failures.lock().remove(key);
            return Ok(Next::Never);
        };
        let uid = set.uid().unwrap_or_default();
        self.settle_claims(key, &set).await?;
        let mut mine = self.hub.caches.pods.in_namespace(&key.namespace);
        mine.retain(|pod| pods::is_controlled_by(&pod.metadata, &uid));
        let failure = self.failures.lock().get(key).cloned();
        let plan = decide(&set, &mine, failure.as_deref(), Timestamp::now());
        self.execute(key, &set, &mine, plan).await
    }
}

impl ReplicaSetReconciler {
    async fn settle_claims(&self, key: &Key, set: &ReplicaSet) -> Result<(), CallError> {
        let pods = self.hub.caches.pods.in_namespace(&key.namespace);
        let claims = claims(set, &pods);
        if claims.adopt.is_empty() && claims.orphan.is_empty() {
            return Ok(());
        }
        for pod in &pods {
            let Some(uid) = pod.uid() else { continue };
            if claims.adopt.contains(&uid) {
                adopt::adopt(&self.hub, pod.as_ref(), set).await?;
            } else if claims.orphan.contains(&uid) {
                adopt::release(&self.hub, pod.as_ref(), &set.uid().unwrap_or_default()).await?;
            }
        }
        Ok(())
    }

    async fn execute(
        &self,
        key: &Key,
        set: &Arc<ReplicaSet>,
        pods: &[Arc<Pod>],
        plan: ReplicaSetPlan,
    ) -> Result<Next, CallError> {
        let deletes = batch::chosen(pods, &plan.delete).into_iter().map(|pod| self.delete(set, pod));
        let deleted = batch::run(deletes.collect()).await;
        deleted.into_iter().collect::<Result<(), _>>()?;
        self.create(key, set, plan.create).await?;
        if let Some(status) = plan.status {
            let mut written = ReplicaSet::clone(set);
            written.status = Some(status);
            self.hub.replace_status(&written).await?;
        }
        Ok(plan.next.map_or(Next::Event, Next::After))
    }

    async fn delete(&self, set: &ReplicaSet, pod: &Pod) -> Result<(), CallError> {
        self.hub.delete::<Pod>(&Key::of(pod), &pod.uid().unwrap_or_default()).await?;
        self.hub.recorder.record(set, Note::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name_any())));
        Ok(())
    }

    async fn create(&self, key: &Key, set: &ReplicaSet, count: usize) -> Result<(), CallError> {
        if count == 0 {
            return Ok(());
        }
        let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let pod = pods::from_template(&template, set);
        let mut failure = None;
        for result in batch::run((0..count).map(|_| self.hub.create(&pod)).collect()).await {
            match result {
                Ok((name, _)) => {
                    self.hub.recorder.record(set, Note::normal("SuccessfulCreate", format!("Created pod: {name}")));
                }
                Err(error) => failure = Some(error),
            }
        }
        let Some(error) = failure else {
            self.failures.lock().remove(key);
            return Ok(());
        };
        self.hub.recorder.record(set, Note::warning("FailedCreate", error.to_string()));
        let news = self.failures.lock().insert(key.clone(), error.to_string()) != Some(error.to_string());
        // The status tells why at once; the error brings the retry.
        if news {
            self.report(key, set).await?;
        }
        Err(error)
    }

    async fn report(&self, key: &Key, set: &ReplicaSet) -> Result<(), CallError> {
        let mut pods = self.hub.caches.pods.in_namespace(&key.namespace);
        pods.retain(|pod| pods::is_controlled_by(&pod.metadata, &set.uid().unwrap_or_default()));
        let failure = self.failures.lock().get(key).cloned();
        if let Some(status) = decide(set, &pods, failure.as_deref(), Timestamp::now()).status {
            let mut written = set.clone();
            written.status = Some(status);
            self.hub.replace_status(&written).await?;
        }
        Ok(())
    }
}
