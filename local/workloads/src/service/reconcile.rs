//! Carries out a Service's next step. Addresses are given out by one task at a time, so no two get the same.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::allocate::Ipv4Cidr;
use super::decide::{ServiceStep, decide};
use crate::call::CallError;
use crate::hub::Hub;
use crate::key::Key;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};

/// A problem that only another object can solve is looked at again after this.
const RETRY: Duration = Duration::from_secs(10);

/// The Service controller.
pub(crate) struct ServiceReconciler {
    hub: Arc<Hub>,
    block: Ipv4Cidr,
    /// Held from choosing an address until the cache shows it.
    allocation: tokio::sync::Mutex<()>,
}

impl ServiceReconciler {
    pub(crate) fn new(hub: Arc<Hub>, block: Ipv4Cidr) -> Self {
        Self { hub, block, allocation: tokio::sync::Mutex::new(()) }
    }
}

impl Reconcile for ServiceReconciler {
    const NAME: &'static str = "service";

    fn queue(&self) -> &Queue {
        &self.hub.queues.services
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let _one_at_a_time = self.allocation.lock().await;
        let Some(service) = self.hub.caches.services.get(key) else { return Ok(Next::Never) };
        match decide(&service, &self.hub.caches.services.all(), self.block, Timestamp::now()) {
            ServiceStep::Nothing => {}
            ServiceStep::Assign(address) => {
                let patch = json!({
                    "metadata": {"resourceVersion": service.resource_version()},
                    "spec": {"clusterIP": address, "clusterIPs": [address]},
                });
                self.hub.patch::<Service>(key, &service.uid().unwrap_or_default(), &patch).await?;
            }
            ServiceStep::Report(status, note) => {
                let mut written = Service::clone(&service);
                written.status = Some(*status);
                self.hub.replace_status(&written).await?;
                self.hub.recorder.record(service.as_ref(), note);
            }
            ServiceStep::Warn(note) => {
                self.hub.recorder.record(service.as_ref(), note);
                return Ok(Next::After(RETRY));
            }
        }
        Ok(Next::Event)
    }
}
