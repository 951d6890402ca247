//! Starts the informers and the workers, and stops them.

use std::{sync::Arc, time::Duration};

use kube::Client;
use modelway_plan::{Kind, Settings, job_source};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{execute::Executor, informer, reconcile::Worker, store::Store};

/// Keys worked on at once.
const WORKERS: usize = 4;
/// Longest wait for the first lists; after that work begins with what is there.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// What a controller runs with.
#[derive(Clone)]
pub struct ControllerOptions {
    pub client: Client,
    /// The only namespace to look at; all of them when absent.
    pub namespace: Option<String>,
    pub settings: Settings,
}

impl ControllerOptions {
    /// A controller of all namespaces with default settings.
    pub fn new(client: Client) -> Self {
        Self { client, namespace: None, settings: Settings::default() }
    }
}

/// Why a controller stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A task that should run for ever ended.
    #[error("a task of the controller ended: {0}")]
    Ended(String),
}

/// Runs until it is cancelled. What was begun is finished or found again at the next start.
pub async fn run(options: ControllerOptions, cancel: CancellationToken) -> Result<(), ControllerError> {
    let store = Store::default();
    let mut tasks = JoinSet::new();
    let mut synced = Vec::new();
    for kind in Kind::ALL {
        let (sender, receiver) = watch::channel(false);
        synced.push((kind, receiver));
        tasks.spawn(informer::run(options.client.clone(), options.namespace.clone(), kind, store.clone(), sender));
    }
    tokio::select! {
        () = cancel.cancelled() => return stop(tasks).await,
        () = wait_for_lists(synced) => {}
    }
    let worker = Worker {
        executor: Executor::new(options.client, store.clone()),
        store,
        settings: Arc::new(options.settings),
        sources: job_source::built_in().into(),
    };
    for _ in 0..WORKERS {
        tasks.spawn(worker.clone().run());
    }
    tokio::select! {
        () = cancel.cancelled() => stop(tasks).await,
        ended = tasks.join_next() => {
            let why = match ended {
                Some(Err(error)) => error.to_string(),
                Some(Ok(())) => "a watch or a worker returned".to_owned(),
                None => "there are no tasks".to_owned(),
            };
            tasks.shutdown().await;
            Err(ControllerError::Ended(why))
        }
    }
}

async fn stop(mut tasks: JoinSet<()>) -> Result<(), ControllerError> {
    tasks.shutdown().await;
    Ok(())
}

/// Planning begins when every kind has been listed: a cache that is half full would look like missing objects.
async fn wait_for_lists(synced: Vec<(Kind, watch::Receiver<bool>)>) {
    let deadline = tokio::time::Instant::now() + SYNC_TIMEOUT;
    for (kind, mut receiver) in synced {
        let wait = receiver.wait_for(|is_synced| *is_synced);
        if !matches!(tokio::time::timeout_at(deadline, wait).await, Ok(Ok(_))) {
            tracing::warn!(kind = kind.as_str(), "no list within {SYNC_TIMEOUT:?}, beginning without it");
        }
    }
}
