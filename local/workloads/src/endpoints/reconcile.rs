//! Reads a Service's world from the caches, asks for a plan and carries it out.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use super::decide::decide;
use crate::call::CallError;
use crate::hub::Hub;
use crate::key::Key;
use crate::queue::Queue;
use crate::routes::SERVICE_NAME;
use crate::selector;
use crate::worker::{Next, Reconcile};

/// The `EndpointSlice` controller.
pub(crate) struct EndpointsReconciler {
    pub(crate) hub: Arc<Hub>,
}

impl Reconcile for EndpointsReconciler {
    const NAME: &'static str = "endpoints";

    fn queue(&self) -> &Queue {
        &self.hub.queues.endpoints
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        // Slices of a Service that is gone go with it: it is their owner.
        let Some(service) = self.hub.caches.services.get(key) else { return Ok(Next::Never) };
        let mut pods = self.hub.caches.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selector::selects(&service, pod.labels()));
        let mut slices = self.hub.caches.slices.in_namespace(&key.namespace);
        slices.retain(|slice| slice.labels().get(SERVICE_NAME) == Some(&key.name));
        let plan = decide(&service, &pods, &slices);
        for slice in &plan.create {
            self.hub.create(slice).await?;
        }
        for slice in &plan.replace {
            self.hub.replace(slice).await?;
        }
        for slice in slices.iter().filter(|slice| plan.delete.contains(&slice.name_any())) {
            self.hub.delete::<EndpointSlice>(&Key::of(slice.as_ref()), &slice.uid().unwrap_or_default()).await?;
        }
        Ok(Next::Event)
    }
}
