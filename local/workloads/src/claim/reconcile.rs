//! Carries out a claim's next step.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;

use super::decide::{ClaimStep, PROTECTION, decide, folder};
use crate::call::CallError;
use crate::events::Note;
use crate::hub::Hub;
use crate::key::Key;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};

/// When a folder could not be made or removed.
const RETRY_FOLDER: Duration = Duration::from_secs(10);

/// The claim controller.
pub(crate) struct ClaimReconciler {
    pub(crate) hub: Arc<Hub>,
    pub(crate) data_dir: PathBuf,
}

impl Reconcile for ClaimReconciler {
    const NAME: &'static str = "claim";

    fn queue(&self) -> &Queue {
        &self.hub.queues.claims
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let Some(claim) = self.hub.caches.claims.get(key) else { return Ok(Next::Never) };
        let step = decide(&claim, &self.hub.caches.pods.in_namespace(&key.namespace));
        let uid = claim.uid().unwrap_or_default();
        match step {
            ClaimStep::Nothing | ClaimStep::WaitForPods => {}
            ClaimStep::Protect => {
                let mut finalizers = claim.finalizers().to_vec();
                finalizers.push(PROTECTION.to_owned());
                let version = claim.resource_version();
                let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
                self.hub.patch::<PersistentVolumeClaim>(key, &uid, &patch).await?;
            }
            ClaimStep::Bind { volume } => {
                let patch = json!({"spec": {"volumeName": volume}});
                self.hub.patch::<PersistentVolumeClaim>(key, &uid, &patch).await?;
            }
            ClaimStep::Report(status) => {
                if !self.prepare(&claim).await {
                    return Ok(Next::After(RETRY_FOLDER));
                }
                let mut written = PersistentVolumeClaim::clone(&claim);
                written.status = Some(*status);
                self.hub.replace_status(&written).await?;
            }
            ClaimStep::Remove => {
                if !self.remove(&claim).await {
                    return Ok(Next::After(RETRY_FOLDER));
                }
                let rest: Vec<_> = claim.finalizers().iter().filter(|name| *name != PROTECTION).collect();
                let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": claim.resource_version()}});
                self.hub.patch::<PersistentVolumeClaim>(key, &uid, &patch).await?;
            }
        }
        Ok(Next::Event)
    }
}

impl ClaimReconciler {
    async fn prepare(&self, claim: &PersistentVolumeClaim) -> bool {
        let made = match self.path(claim) {
            Some(path) => tokio::fs::create_dir_all(path).await,
            None => Err(io::Error::other("its name is not a plain path component")),
        };
        self.said(claim, "ProvisioningFailed", "create", made)
    }

    async fn remove(&self, claim: &PersistentVolumeClaim) -> bool {
        let Some(path) = self.path(claim) else { return true };
        let removed = match tokio::fs::remove_dir_all(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        self.said(claim, "VolumeFailedDelete", "remove", removed)
    }

    fn path(&self, claim: &PersistentVolumeClaim) -> Option<PathBuf> {
        folder(claim).map(|folder| self.data_dir.join(folder))
    }

    fn said(&self, claim: &PersistentVolumeClaim, reason: &'static str, action: &str, done: io::Result<()>) -> bool {
        let Err(error) = done else { return true };
        let message = format!("{action} the folder of claim {}: {error}", claim.name_any());
        self.hub.recorder.record(claim, Note::warning(reason, message));
        false
    }
}
