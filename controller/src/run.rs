//! Starts the informers, the election and the workers, and stops them in the order that leaves nothing half done.

use std::{sync::Arc, time::Duration};

use kube::Client;
use modelway_plan::{Kind, Settings, job_source};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::Admin,
    definitions::{self, Definition},
    election::{Candidate, LeaderElection},
    execute::{CALL_TIMEOUT, Executor},
    health::Health,
    informer::Informer,
    leadership::Leadership,
    meter,
    metrics::Metrics,
    namespaces,
    nodes::Nodes,
    reconcile::Worker,
    results::Results,
    scaling::Scaler,
    served::{Search, Served},
    store::Store,
};

/// Keys worked on at once.
const WORKERS: usize = 4;
/// Longest wait for the first lists; after that work begins on what does not need the missing ones.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the writes that are under way at a stop: one call, and a little.
const WORKERS_STOP: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));
/// Longest wait for the lease to be given up.
const ELECTION_STOP: Duration = Duration::from_secs(5);

/// What a controller runs with.
pub struct ControllerOptions {
    pub client: Client,
    /// The only namespaces to look at; all of them when empty.
    pub namespaces: Vec<String>,
    pub settings: Settings,
    /// How replicas agree on one that works; absent = this is the only one.
    pub election: Option<LeaderElection>,
    /// Where health, readiness and metrics are told.
    pub admin: Option<TcpListener>,
    /// Where clients of trials report; nowhere when absent.
    pub results: Option<TcpListener>,
}

impl ControllerOptions {
    /// A controller of all namespaces with default settings, the only one, without ports.
    pub fn new(client: Client) -> Self {
        let settings = Settings::default();
        Self { client, namespaces: Vec::new(), settings, election: None, admin: None, results: None }
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
    let mut controller = Controller::start(options);
    let failure = tokio::select! {
        () = cancel.cancelled() => None,
        failure = controller.work() => Some(failure),
    };
    controller.stop().await;
    failure.map_or(Ok(()), Err)
}

/// Everything that runs.
struct Controller {
    worker: Worker,
    synced: Vec<(&'static str, watch::Receiver<bool>)>,
    workers: JoinSet<()>,
    workers_stop: CancellationToken,
    election: JoinSet<()>,
    election_stop: CancellationToken,
    others: JoinSet<()>,
}

/// What all tasks share.
#[derive(Clone)]
struct Shared {
    client: Client,
    store: Store,
    served: Served,
    health: Health,
    metrics: Metrics,
}

impl Controller {
    fn start(mut options: ControllerOptions) -> Self {
        options.namespaces.sort();
        options.namespaces.dedup();
        let metrics = Metrics::default();
        let shared = Shared {
            client: meter::client(&options.client, metrics.clone()),
            store: Store::default(),
            served: Served::new(watched(&options.namespaces)),
            health: Health::default(),
            metrics,
        };
        let (mut election, election_stop) = (JoinSet::new(), CancellationToken::new());
        let leadership = match options.election {
            Some(lease) => {
                let (candidate, leadership) = shared.candidate(lease);
                election.spawn(candidate.run(election_stop.clone()));
                leadership
            }
            None => Leadership::always(),
        };
        shared.metrics.leader(leadership.permit(tokio::time::Instant::now()).is_ok());
        let mut others = JoinSet::new();
        if let Some(listener) = options.admin {
            others.spawn(shared.admin().serve(listener));
        }
        if let Some(listener) = options.results {
            others.spawn(shared.results().serve(listener));
        }
        let synced = shared.watch(&options.namespaces, &mut others);
        others.spawn(wake_on_takeover(leadership.clone(), shared.store.clone()));
        others.spawn(shared.scaler(leadership.clone()).run());
        let mut worker = shared.worker(options.settings, leadership);
        worker.cluster = Some(shared.client.clone()).filter(|_| options.namespaces.is_empty());
        Self {
            worker,
            synced,
            workers: JoinSet::new(),
            workers_stop: CancellationToken::new(),
            election,
            election_stop,
            others,
        }
    }

    /// Works until something ends that should not.
    async fn work(&mut self) -> ControllerError {
        wait_for_lists(&self.synced).await;
        for _ in 0..WORKERS {
            self.workers.spawn(self.worker.clone().run(self.workers_stop.clone()));
        }
        let ended = tokio::select! {
            Some(ended) = self.workers.join_next() => ended,
            Some(ended) = self.election.join_next() => ended,
            Some(ended) = self.others.join_next() => ended,
        };
        ControllerError::Ended(match ended {
            Err(error) => error.to_string(),
            Ok(()) => "a watch, a worker or the election returned".to_owned(),
        })
    }

    /// First no new writes, then no lease, then nothing.
    async fn stop(mut self) {
        self.workers_stop.cancel();
        drain(&mut self.workers, WORKERS_STOP, "workers").await;
        self.election_stop.cancel();
        drain(&mut self.election, ELECTION_STOP, "election").await;
        self.others.shutdown().await;
    }
}

impl Shared {
    fn candidate(&self, options: LeaderElection) -> (Candidate, Leadership) {
        let (lead, leadership) = Leadership::elected();
        let (client, health, metrics) = (self.client.clone(), self.health.clone(), self.metrics.clone());
        (Candidate { client, options, lead, health, metrics }, leadership)
    }

    fn admin(&self) -> Admin {
        Admin { health: self.health.clone(), metrics: self.metrics.clone(), store: self.store.clone() }
    }

    fn results(&self) -> Results {
        Results { client: self.client.clone(), store: self.store.clone() }
    }

    fn scaler(&self, leadership: Leadership) -> Scaler {
        Scaler { store: self.store.clone(), leadership, metrics: self.metrics.clone() }
    }

    fn worker(&self, settings: Settings, leadership: Leadership) -> Worker {
        Worker {
            executor: Executor::new(self.client.clone(), self.store.clone(), leadership.clone()),
            store: self.store.clone(),
            settings: Arc::new(settings),
            sources: job_source::built_in().into(),
            leadership,
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            cluster: None,
            nodes: Nodes::default(),
        }
    }

    /// Starts all watches. Returns what to wait for before work begins.
    fn watch(&self, namespaces: &[String], tasks: &mut JoinSet<()>) -> Vec<(&'static str, watch::Receiver<bool>)> {
        let mut synced = Vec::new();
        for kind in watched(namespaces) {
            for namespace in scopes(namespaces) {
                let (sender, receiver) = watch::channel(false);
                synced.push((kind.as_str(), receiver));
                tasks.spawn(self.informer(kind, namespace).run(sender));
            }
        }
        for namespace in namespaces {
            tasks.spawn(namespaces::follow(self.client.clone(), namespace.clone(), self.store.clone()));
        }
        // Definitions belong to the whole cluster: a controller of some namespaces may not look at them.
        for kind in definitions::kinds().filter(|_| namespaces.is_empty()) {
            let (sender, receiver) = watch::channel(false);
            synced.push(("CustomResourceDefinition", receiver));
            tasks.spawn(self.definition(kind).run(sender));
        }
        tasks.spawn(self.search().run());
        synced
    }

    fn informer(&self, kind: Kind, namespace: Option<String>) -> Informer {
        Informer {
            client: self.client.clone(),
            kind,
            namespace,
            served: self.served.clone(),
            store: self.store.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
        }
    }

    fn definition(&self, kind: Kind) -> Definition {
        Definition {
            client: self.client.clone(),
            kind,
            served: self.served.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            store: self.store.clone(),
        }
    }

    fn search(&self) -> Search {
        Search {
            client: self.client.clone(),
            served: self.served.clone(),
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            store: self.store.clone(),
        }
    }
}

/// Kinds that are watched. Namespaces belong to the whole cluster: a controller of some asks for them by name.
fn watched(namespaces: &[String]) -> impl Iterator<Item = Kind> + use<> {
    let is_limited = !namespaces.is_empty();
    Kind::ALL.into_iter().filter(move |kind| kind.is_watched() && !(is_limited && *kind == Kind::Namespace))
}

/// One watch for all namespaces, or one for each.
fn scopes(namespaces: &[String]) -> Vec<Option<String>> {
    if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() }
}

/// A new leader looks at everything: it cannot know what the last one left undone.
async fn wake_on_takeover(mut leadership: Leadership, store: Store) {
    loop {
        leadership.leading().await;
        store.wake_all();
        leadership.lost().await;
    }
}

/// Planning begins when every kind has been listed.
async fn wait_for_lists(synced: &[(&'static str, watch::Receiver<bool>)]) {
    let deadline = tokio::time::Instant::now() + SYNC_TIMEOUT;
    for (kind, receiver) in synced {
        let mut receiver = receiver.clone();
        let wait = receiver.wait_for(|is_synced| *is_synced);
        if !matches!(tokio::time::timeout_at(deadline, wait).await, Ok(Ok(_))) {
            tracing::warn!(kind, "no list within {SYNC_TIMEOUT:?}; what needs none of this kind begins");
        }
    }
}

async fn drain(tasks: &mut JoinSet<()>, limit: Duration, what: &str) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(limit, all).await.is_err() {
        tracing::warn!("the {what} did not end within {limit:?} and are left behind");
        tasks.shutdown().await;
    }
}
