//! Starts the informers, then the controllers, and stops them together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::budget::BudgetReconciler;
use crate::claim::ClaimReconciler;
use crate::deployment::DeploymentReconciler;
use crate::endpoints::EndpointsReconciler;
use crate::events::{Recorder, write_events};
use crate::forwarder::{ForwardReconciler, Limits, Listeners};
use crate::hub::Hub;
use crate::informer::inform;
use crate::job::JobReconciler;
use crate::replica_set::ReplicaSetReconciler;
use crate::service::{Ipv4Cidr, ServiceReconciler};
use crate::worker::{Reconcile, work};

/// The API server must have listed every kind by then.
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

/// What the controllers need to know.
#[derive(Clone)]
pub struct WorkloadOptions {
    /// The API server.
    pub client: Client,
    /// Volumes live in `volumes/` below it.
    pub data_dir: PathBuf,
    /// Addresses for Services; a loopback block that nothing else uses.
    pub service_cidr: Ipv4Cidr,
    /// Wait before the second replacement of a failed Job pod in a row; the first waits a tenth of it, later ones
    /// double up to 6 minutes.
    pub job_backoff_base: Duration,
    /// Connections the forwarder carries at a time (each needs two file descriptors); more wait in the kernel.
    pub max_connections: usize,
    /// New connections that wait for an endpoint at a time; more are closed at once.
    pub max_held_connections: usize,
}

impl WorkloadOptions {
    /// Options with the usual limits.
    pub fn new(client: Client, data_dir: impl Into<PathBuf>, service_cidr: Ipv4Cidr) -> Self {
        Self {
            client,
            data_dir: data_dir.into(),
            service_cidr,
            job_backoff_base: Duration::from_secs(10),
            max_connections: 4096,
            max_held_connections: 1024,
        }
    }
}

/// Why the controllers stopped.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The caches could not be filled.
    #[error("workload controllers: the API server did not list every kind within {} s; see its log", SYNC_TIMEOUT.as_secs())]
    NotSynced,
    /// A task ended that never should.
    #[error("workload controllers: a task ended unexpectedly: {0}")]
    TaskEnded(String),
}

/// Runs all controllers until the token is cancelled.
pub async fn run(options: WorkloadOptions, token: CancellationToken) -> Result<(), WorkloadError> {
    // Everything below stops with this one, also when a task fails.
    let token = token.child_token();
    let _stop = token.clone().drop_guard();
    let (recorder, events) = Recorder::new();
    let hub = Hub::new(options.client.clone(), recorder);
    let limits = Limits { connections: options.max_connections, held: options.max_held_connections };
    let listeners = Arc::new(Listeners::new(limits, token.clone()));
    let mut tasks = JoinSet::new();
    tasks.spawn(write_events(options.client.clone(), events, token.clone()));
    start_informers(&hub, &token, &mut tasks);
    let result = match wait_until_synced(&hub, &token).await {
        Ok(()) => {
            start_controllers(&hub, &options, &listeners, &token, &mut tasks);
            supervise(&token, &mut tasks).await
        }
        Err(error) => Err(error),
    };
    token.cancel();
    while tasks.join_next().await.is_some() {}
    listeners.closed().await;
    result
}

fn start_informers(hub: &Arc<Hub>, token: &CancellationToken, tasks: &mut JoinSet<()>) {
    tasks.spawn(inform::<Pod>(hub.clone(), token.clone()));
    tasks.spawn(inform::<Job>(hub.clone(), token.clone()));
    tasks.spawn(inform::<ReplicaSet>(hub.clone(), token.clone()));
    tasks.spawn(inform::<Deployment>(hub.clone(), token.clone()));
    tasks.spawn(inform::<Service>(hub.clone(), token.clone()));
    tasks.spawn(inform::<EndpointSlice>(hub.clone(), token.clone()));
    tasks.spawn(inform::<PersistentVolumeClaim>(hub.clone(), token.clone()));
    tasks.spawn(inform::<PodDisruptionBudget>(hub.clone(), token.clone()));
}

async fn wait_until_synced(hub: &Hub, token: &CancellationToken) -> Result<(), WorkloadError> {
    let mut listed = hub.listed.subscribe();
    let synced = async {
        while !hub.is_synced() {
            // The sender lives in the hub.
            let _ = listed.changed().await;
        }
    };
    tokio::select! {
        () = token.cancelled() => Ok(()),
        done = tokio::time::timeout(SYNC_TIMEOUT, synced) => done.map_err(|_| WorkloadError::NotSynced),
    }
}

fn start_controllers(
    hub: &Arc<Hub>,
    options: &WorkloadOptions,
    listeners: &Arc<Listeners>,
    token: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    let block = options.service_cidr;
    let mut start = Starter { token, tasks };
    start.controller(JobReconciler { hub: hub.clone(), backoff_base: options.job_backoff_base });
    start.controller(ReplicaSetReconciler::new(hub.clone()));
    start.controller(DeploymentReconciler { hub: hub.clone() });
    start.controller(ServiceReconciler::new(hub.clone(), block));
    start.controller(BudgetReconciler { hub: hub.clone() });
    start.controller(EndpointsReconciler { hub: hub.clone() });
    start.controller(ForwardReconciler { hub: hub.clone(), block, listeners: listeners.clone() });
    start.controller(ClaimReconciler { hub: hub.clone(), data_dir: options.data_dir.clone() });
}

struct Starter<'a> {
    token: &'a CancellationToken,
    tasks: &'a mut JoinSet<()>,
}

impl Starter<'_> {
    fn controller<R: Reconcile>(&mut self, reconciler: R) {
        self.tasks.spawn(work(Arc::new(reconciler), self.token.clone()));
    }
}

/// No task ends before the token is cancelled; one that does takes the others down.
async fn supervise(token: &CancellationToken, tasks: &mut JoinSet<()>) -> Result<(), WorkloadError> {
    let ended = tokio::select! {
        () = token.cancelled() => return Ok(()),
        ended = tasks.join_next() => ended,
    };
    if token.is_cancelled() {
        return Ok(());
    }
    Err(WorkloadError::TaskEnded(match ended {
        Some(Err(error)) => error.to_string(),
        Some(Ok(())) | None => "it returned".to_owned(),
    }))
}
