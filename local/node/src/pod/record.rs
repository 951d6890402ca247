//! What was seen of a pod and its containers so far.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::backoff::{Backoff, BackoffRule};
use super::outcome::Outcome;
use super::rules::{ContainerRules, PodRules};
use crate::limits::Enforced;

/// A stable word for machines and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub reason: String,
    pub message: String,
}

impl Reason {
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// How a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub reason: String,
    pub message: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
}

/// A stop under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    pub kill_at: Timestamp,
    pub killed: bool,
}

/// A run under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub since: Timestamp,
    /// The startup probe passed, or there is none.
    pub started: bool,
    pub ready: bool,
    /// Why it is not ready, where that is known.
    pub not_ready: Option<Reason>,
    /// Why it must be stopped and started again.
    pub condemned: Option<String>,
    pub stopping: Option<Stopping>,
}

/// Where a container is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    Waiting(Reason),
    Running(Running),
    Terminated(Termination),
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRecord {
    pub state: ContainerState,
    pub last: Option<Termination>,
    /// Runs begun so far; also the number of the next run.
    pub runs: u32,
    pub backoff: Backoff,
    /// Not to be started before this.
    pub not_before: Option<Timestamp>,
    /// Will not run again.
    pub done: bool,
}

impl Default for ContainerRecord {
    fn default() -> Self {
        Self {
            state: ContainerState::Waiting(Reason::new("ContainerCreating", "")),
            last: None,
            runs: 0,
            backoff: Backoff::default(),
            not_before: None,
            done: false,
        }
    }
}

impl ContainerRecord {
    pub fn running(&self) -> Option<&Running> {
        if let ContainerState::Running(running) = &self.state { Some(running) } else { None }
    }

    pub fn running_mut(&mut self) -> Option<&mut Running> {
        if let ContainerState::Running(running) = &mut self.state { Some(running) } else { None }
    }

    /// The end of the latest run that ended.
    pub fn termination(&self) -> Option<&Termination> {
        if let ContainerState::Terminated(termination) = &self.state { Some(termination) } else { self.last.as_ref() }
    }

    /// Ended well and for good.
    pub fn succeeded(&self) -> bool {
        self.done && self.termination().is_some_and(|termination| termination.exit_code == 0)
    }

    pub fn restarts(&self) -> u32 {
        self.runs.saturating_sub(1)
    }

    /// A run began.
    pub fn begin(&mut self, rules: &ContainerRules, now: Timestamp) {
        let running = Running {
            since: now,
            started: !rules.has_startup_probe,
            ready: !rules.has_startup_probe && !rules.has_readiness_probe,
            not_ready: None,
            condemned: None,
            stopping: None,
        };
        if let ContainerState::Terminated(termination) =
            std::mem::replace(&mut self.state, ContainerState::Running(running))
        {
            self.last = Some(termination);
        }
        self.runs += 1;
        self.not_before = None;
    }

    /// A start was not possible; it is tried again at `retry_at`.
    pub fn block(&mut self, reason: Reason, retry_at: Timestamp) {
        if let ContainerState::Terminated(termination) =
            std::mem::replace(&mut self.state, ContainerState::Waiting(reason))
        {
            self.last = Some(termination);
        }
        self.not_before = Some(retry_at);
    }

    /// A run ended. Returns the wait before the next one, if there is a next one.
    pub fn end(&mut self, rules: &ContainerRules, rule: &BackoffRule, termination: Termination) -> Option<Duration> {
        if !rules.restarts_after(termination.exit_code) {
            self.done = true;
            self.state = ContainerState::Terminated(termination);
            return None;
        }
        let ran =
            Duration::try_from(termination.finished_at.duration_since(termination.started_at)).unwrap_or_default();
        let delay = self.backoff.ended(rule, ran);
        self.not_before = Some(termination.finished_at + delay);
        if delay.is_zero() {
            self.state = ContainerState::Terminated(termination);
        } else {
            let message = format!("back-off {delay:?} restarting failed container={}", rules.name);
            self.state = ContainerState::Waiting(Reason::new("CrashLoopBackOff", message));
            self.last = Some(termination);
        }
        Some(delay)
    }
}

/// Whether the pod has its address and its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    Missing { retry_at: Option<Timestamp> },
    Preparing,
    Ready,
}

/// Why everything in the pod must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody deleted the pod object, which waits for us to remove it.
    Deleted,
    /// The pod object is gone already.
    Vanished,
    /// The platform stops; the pod object stays.
    PlatformStops,
}

/// A request to stop the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRequest {
    pub cause: StopCause,
    pub grace: Duration,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    pub containers: Vec<ContainerRecord>,
    pub sandbox: Sandbox,
    pub since: Timestamp,
    pub stop: Option<StopRequest>,
    pub outcome: Option<Outcome>,
    /// Which limits hold for the containers that were started, by their place.
    pub limits: BTreeMap<usize, Enforced>,
}

impl PodRecord {
    /// A pod that this node sees for the first time.
    pub fn new(rules: &PodRules, since: Timestamp) -> Self {
        Self {
            containers: rules.containers.iter().map(|_| ContainerRecord::default()).collect(),
            sandbox: Sandbox::Missing { retry_at: None },
            since,
            stop: None,
            outcome: None,
            limits: BTreeMap::new(),
        }
    }

    pub fn any_running(&self) -> bool {
        self.containers.iter().any(|container| container.running().is_some())
    }

    /// Decided and with nothing left running.
    pub fn finished(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|_| !self.any_running())
    }
}
