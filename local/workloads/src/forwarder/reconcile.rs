//! Keeps the forwarder's listeners as the Services and slices say.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::holder::holder_of;
use super::listeners::{Listeners, NotBound};
use super::table::table;
use crate::call::CallError;
use crate::events::Note;
use crate::hub::Hub;
use crate::key::Key;
use crate::queue::Queue;
use crate::routes::SERVICE_NAME;
use crate::service::Ipv4Cidr;
use crate::worker::{Next, Reconcile};

/// A port that is held is tried again after this; its holder may end.
const RETRY_BIND: Duration = Duration::from_secs(2);

/// The controller of the forwarder.
pub(crate) struct ForwardReconciler {
    pub(crate) hub: Arc<Hub>,
    pub(crate) block: Ipv4Cidr,
    pub(crate) listeners: Arc<Listeners>,
}

impl Reconcile for ForwardReconciler {
    const NAME: &'static str = "forwarder";

    fn queue(&self) -> &Queue {
        &self.hub.queues.forwards
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let Some(service) = self.hub.caches.services.get(key) else {
            self.listeners.apply(key, &std::collections::BTreeMap::new()).await;
            return Ok(Next::Never);
        };
        let mut slices = self.hub.caches.slices.in_namespace(&key.namespace);
        slices.retain(|slice| slice.labels().get(SERVICE_NAME) == Some(&key.name));
        let failed = self.listeners.apply(key, &table(&service, &slices, self.block)).await;
        let retry = !failed.is_empty();
        for not_bound in failed {
            self.explain(&service, not_bound).await;
        }
        Ok(if retry { Next::After(RETRY_BIND) } else { Next::Event })
    }
}

impl ForwardReconciler {
    async fn explain(&self, service: &Service, NotBound { address, error }: NotBound) {
        let note = match error.kind() {
            io::ErrorKind::AddrInUse => {
                // Reading the process table blocks for some milliseconds.
                let holder = tokio::task::spawn_blocking(move || holder_of(address)).await.ok().flatten();
                let holder = holder.unwrap_or_else(|| "a program of another user".to_owned());
                Note::warning(
                    "PortHeldByHost",
                    format!(
                        "{address}: port {} is held by {holder}; stop it or give the Service another port",
                        address.port()
                    ),
                )
            }
            io::ErrorKind::PermissionDenied => Note::warning(
                "PortNotAllowed",
                format!(
                    "{address}: this user may not open port {}; give the Service a port from 1024 on",
                    address.port()
                ),
            ),
            _ => Note::warning("PortNotOpened", format!("{address}: {error}")),
        };
        self.hub.recorder.record(service, note);
    }
}
