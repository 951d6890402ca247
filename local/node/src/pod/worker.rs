//! The worker of one pod: carries out the plan, and tells the API what came of it.

mod notes;
mod publish;
mod steps;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::adopt;
use super::backoff::Backoff;
use super::launch::Launch;
use super::outcome::Outcome;
use super::plan::plan;
use super::prober::Finding;
use super::record::{PodRecord, StopCause, StopRequest};
use super::rules::{PodRules, containers};
use super::run::RunHandle;
use super::volumes::{Blocked, Roots};
use crate::context::Shared;
use crate::shim::ExitRecord;

/// What the node wants of a worker; always the latest, nothing queues up.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub pod: Arc<Pod>,
    /// The object is gone from the API.
    pub gone: bool,
    pub platform_stops: bool,
}

/// Something that happened to the pod.
enum Note {
    Prepared(Result<Roots, Blocked>),
    Ended {
        container: usize,
        exit: ExitRecord,
    },
    Found {
        container: usize,
        run: u32,
        finding: Finding,
    },
    /// The preStop hook of a container is through.
    HookDone {
        container: usize,
        run: u32,
    },
}

/// A run under way.
struct LiveRun {
    handle: RunHandle,
    launch: Arc<Launch>,
    started: watch::Sender<bool>,
    /// Probes and hooks; they end with the run.
    _helpers: JoinSet<()>,
}

/// Notes that may wait for the worker; their senders wait when there are more.
const NOTES: usize = 64;
/// Plans in a row before the worker looks at its notes again.
const STEPS: usize = 32;
/// Wait after the API refused or failed.
const API_RETRY: Duration = Duration::from_secs(1);

/// The worker.
pub struct Worker {
    context: Shared,
    wanted: watch::Receiver<Wanted>,
    pod: Arc<Pod>,
    uid: String,
    rules: PodRules,
    record: PodRecord,
    address: Option<Ipv4Addr>,
    roots: Roots,
    runs: HashMap<usize, LiveRun>,
    blocked: HashMap<usize, Backoff>,
    prepare_backoff: Backoff,
    sender: mpsc::Sender<Note>,
    notes: mpsc::Receiver<Note>,
    tasks: JoinSet<()>,
    /// The status as the API has it.
    written: Value,
    retry: Option<Timestamp>,
    released: bool,
    left: bool,
}

impl Worker {
    pub fn new(context: Shared, wanted: watch::Receiver<Wanted>) -> Self {
        let pod = wanted.borrow().pod.clone();
        let rules = PodRules::of(&pod);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let now = Timestamp::now();
        let runs = adopt::last_runs(&context.layout, &uid, &rules, now);
        let record = adopt::resume(&pod, &rules, runs, now);
        let (sender, notes) = mpsc::channel(NOTES);
        let written = serde_json::to_value(&pod.status).unwrap_or_default();
        Self {
            context,
            wanted,
            uid,
            rules,
            record,
            address: None,
            roots: Roots::new(),
            runs: HashMap::new(),
            blocked: HashMap::new(),
            prepare_backoff: Backoff::default(),
            sender,
            notes,
            tasks: JoinSet::new(),
            written,
            retry: None,
            released: false,
            left: false,
            pod,
        }
    }

    /// Works until the pod is gone, or the platform stops.
    pub async fn run(mut self) {
        self.begin();
        loop {
            self.take_wanted();
            let wake = self.step().await;
            if self.left {
                return;
            }
            self.publish().await;
            let wake = [wake, self.retry].into_iter().flatten().min();
            tokio::select! {
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(note) = self.notes.recv() => self.take(note).await,
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Notes what the node wants now.
    fn take_wanted(&mut self) {
        let wanted = self.wanted.borrow_and_update().clone();
        self.pod = wanted.pod;
        self.record.stop = stop_request(
            &self.pod,
            &self.rules,
            wanted.gone,
            wanted.platform_stops,
            self.context.options.timing.platform_grace,
        );
    }

    /// Acts until the plan has nothing more to do now; returns when to look again.
    async fn step(&mut self) -> Option<Timestamp> {
        self.retry = None;
        for _ in 0..STEPS {
            let next = plan(&self.rules, &self.record, Timestamp::now());
            let mut changed = false;
            for action in next.actions {
                changed |= self.act(action).await;
            }
            if self.left || !changed {
                return next.wake;
            }
            // A start may take a while; what came in meanwhile counts for the next plan.
            while let Ok(note) = self.notes.try_recv() {
                self.take(note).await;
            }
            self.take_wanted();
        }
        Some(Timestamp::now())
    }

    fn container(&self, index: usize) -> Option<Container> {
        containers(&self.pod).nth(index).map(|(_, container)| container.clone())
    }

    fn container_name(&self, index: usize) -> String {
        self.rules.containers.get(index).map(|rules| rules.name.clone()).unwrap_or_default()
    }

    /// Which stop is under way makes a difference for how the end of a run counts.
    fn is_ending(&self) -> bool {
        self.record.stop.is_some() || self.record.outcome.is_some()
    }

    fn disrupted(&self) -> bool {
        matches!(self.record.outcome, Some(Outcome::Failed { disrupted: true, .. }))
    }
}

/// The most urgent reason to stop comes first.
fn stop_request(
    pod: &Pod,
    rules: &PodRules,
    gone: bool,
    platform_stops: bool,
    platform_grace: Duration,
) -> Option<StopRequest> {
    let declared = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let grace = declared.map_or(rules.grace, Duration::from_secs);
    if gone {
        return Some(StopRequest { cause: StopCause::Vanished, grace: grace.min(platform_grace) });
    }
    if platform_stops {
        return Some(StopRequest { cause: StopCause::PlatformStops, grace: grace.min(platform_grace) });
    }
    pod.metadata.deletion_timestamp.as_ref().map(|_| StopRequest { cause: StopCause::Deleted, grace })
}

async fn sleep_until(wake: Option<Timestamp>) {
    match wake {
        None => std::future::pending().await,
        Some(at) => {
            let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            tokio::time::sleep(wait).await;
        }
    }
}
