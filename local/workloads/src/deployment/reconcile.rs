//! Reads a Deployment's world from the caches, asks for a plan and carries it out.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::decide::{DeploymentPlan, SetEdit, decide};
use crate::call::CallError;
use crate::events::Note;
use crate::hub::Hub;
use crate::key::Key;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};
use crate::{adopt, pods, selector};

/// The Deployment controller.
pub(crate) struct DeploymentReconciler {
    pub(crate) hub: Arc<Hub>,
}

impl Reconcile for DeploymentReconciler {
    const NAME: &'static str = "deployment";

    fn queue(&self) -> &Queue {
        &self.hub.queues.deployments
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let Some(deployment) = self.hub.caches.deployments.get(key) else { return Ok(Next::Never) };
        self.settle_claims(key, &deployment).await?;
        let uid = deployment.uid().unwrap_or_default();
        let mut sets = self.hub.caches.replica_sets.in_namespace(&key.namespace);
        sets.retain(|set| pods::is_controlled_by(&set.metadata, &uid));
        let pods = self.hub.caches.pods.in_namespace(&key.namespace);
        let plan = decide(&deployment, &sets, &pods, Timestamp::now());
        self.execute(key, &deployment, &sets, plan).await
    }
}

impl DeploymentReconciler {
    /// Adopts matching sets that belong to nobody and lets go of own ones that do not match.
    async fn settle_claims(&self, key: &Key, deployment: &Deployment) -> Result<(), CallError> {
        let (Some(spec), Some(uid)) = (&deployment.spec, &deployment.metadata.uid) else { return Ok(()) };
        if deployment.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        for set in self.hub.caches.replica_sets.in_namespace(&key.namespace) {
            let matches = selector::matches(&spec.selector, set.labels());
            match pods::controller(&set.metadata) {
                Some(owner) if owner.uid == *uid && !matches => adopt::release(&self.hub, set.as_ref(), uid).await?,
                None if matches && set.metadata.deletion_timestamp.is_none() => {
                    adopt::adopt(&self.hub, set.as_ref(), deployment).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn execute(
        &self,
        key: &Key,
        deployment: &Arc<Deployment>,
        sets: &[Arc<ReplicaSet>],
        plan: DeploymentPlan,
    ) -> Result<Next, CallError> {
        let uid = deployment.uid().unwrap_or_default();
        if let Some(set) = plan.create {
            self.create(deployment, &set).await?;
        }
        for edit in &plan.edits {
            self.edit(sets, edit).await?;
        }
        for set in sets.iter().filter(|set| plan.delete.contains(&set.name_any())) {
            self.hub.delete::<ReplicaSet>(&Key::of(set.as_ref()), &set.uid().unwrap_or_default()).await?;
        }
        for note in plan.notes {
            self.hub.recorder.record(deployment.as_ref(), note);
        }
        if let Some(revision) = plan.revision {
            let patch = json!({"metadata": {"annotations": {super::sets::REVISION: revision}}});
            self.hub.patch::<Deployment>(key, &uid, &patch).await?;
        }
        if let Some(status) = plan.status {
            self.report(key, deployment, status).await?;
        }
        Ok(plan.next.map_or(Next::Event, Next::After))
    }

    /// The status was decided for this generation: it is written on the object as it is now, unless the spec moved on.
    async fn report(
        &self,
        key: &Key,
        deployment: &Deployment,
        status: k8s_openapi::api::apps::v1::DeploymentStatus,
    ) -> Result<(), CallError> {
        let Some(latest) = self.hub.caches.deployments.get(key) else { return Ok(()) };
        if latest.uid() != deployment.uid() || latest.metadata.generation != deployment.metadata.generation {
            return Ok(());
        }
        let mut written = Deployment::clone(&latest);
        written.status = Some(status);
        self.hub.replace_status(&written).await
    }

    async fn create(&self, deployment: &Arc<Deployment>, set: &ReplicaSet) -> Result<(), CallError> {
        match self.hub.create(set).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => self.after_collision(deployment, set, error).await,
            Err(error) => {
                let note = Note::warning("ReplicaSetCreateError", format!("Failed to create new replica set: {error}"));
                self.hub.recorder.record(deployment.as_ref(), note);
                Err(error)
            }
        }
    }

    /// The name is taken: by our own set that the cache does not know yet, or by a stranger with the same hash.
    async fn after_collision(
        &self,
        deployment: &Arc<Deployment>,
        set: &ReplicaSet,
        error: CallError,
    ) -> Result<(), CallError> {
        let taken = self.hub.fetch::<ReplicaSet>(&Key::of(set)).await?;
        let ours = taken.is_some_and(|taken| {
            pods::is_controlled_by(&taken.metadata, deployment.metadata.uid.as_deref().unwrap_or_default())
                && taken.spec.and_then(|spec| spec.template) == set.spec.clone().and_then(|spec| spec.template)
        });
        if !ours {
            let mut written = Deployment::clone(deployment);
            let status = written.status.get_or_insert_default();
            status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
            self.hub.replace_status(&written).await?;
        }
        Err(error)
    }

    async fn edit(&self, sets: &[Arc<ReplicaSet>], edit: &SetEdit) -> Result<(), CallError> {
        let Some(set) = sets.iter().find(|set| set.name_any() == edit.name) else { return Ok(()) };
        let mut patch = json!({"metadata": {"resourceVersion": set.resource_version()}});
        if !edit.annotations.is_empty() {
            patch["metadata"]["annotations"] = json!(edit.annotations);
        }
        if let Some(replicas) = edit.replicas {
            patch["spec"]["replicas"] = json!(replicas);
        }
        if let Some(seconds) = edit.min_ready_seconds {
            patch["spec"]["minReadySeconds"] = json!(seconds);
        }
        self.hub.patch::<ReplicaSet>(&Key::of(set.as_ref()), &set.uid().unwrap_or_default(), &patch).await
    }
}
