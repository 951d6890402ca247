//! Telling the API.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{API_RETRY, Worker};
use crate::context::{call, is_missing};
use crate::pod::record::StopCause;
use crate::pod::status::{difference, status};

impl Worker {
    /// Writes the status when it says something new.
    pub(super) async fn publish(&mut self) {
        // The end of the platform is not the end of its pods.
        if self.record.stop.is_some_and(|stop| stop.cause != StopCause::Deleted) {
            return;
        }
        let wanted = status(&self.pod, &self.rules, &self.record, self.address, Timestamp::now());
        let Ok(wanted) = serde_json::to_value(wanted) else { return };
        let Some(patch) = difference(&self.written, &wanted) else { return };
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"metadata": {"uid": self.uid}, "status": patch});
        match call(self.api().patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await {
            Ok(_) => self.written = wanted,
            Err(error) if is_missing(&error) => self.written = wanted,
            Err(error) => {
                tracing::debug!(%error, uid = self.uid, "a pod status could not be written; trying again");
                self.retry = Some(Timestamp::now() + API_RETRY);
            }
        }
    }

    fn api(&self) -> Api<Pod> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.context.options.client.clone(), namespace)
    }
}
