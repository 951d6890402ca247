//! The next steps of a pod: from what is wanted and what was seen to what to do now.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::outcome::{self, Outcome};
use super::record::{ContainerRecord, PodRecord, Running, Sandbox, StopCause};
use super::rules::{PodRules, Role};

/// One step; containers are named by their place in [`PodRules::containers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Give the pod its address and its volumes.
    Prepare,
    Start {
        container: usize,
    },
    /// Ask the container to end, and note when to kill it.
    Terminate {
        container: usize,
        grace: Duration,
    },
    Kill {
        container: usize,
    },
    /// Note how the pod ends.
    Conclude(Outcome),
    /// Let go of the address and the processes; the object and the logs stay.
    Release,
    /// Remove the pod object.
    Remove,
    /// Nothing is left to do for this pod, ever.
    Leave,
}

/// What to do now, and when to look again if nothing happens before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub wake: Option<Timestamp>,
}

impl Plan {
    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// Decides. Running it again on an unchanged record gives the same plan.
pub fn plan(rules: &PodRules, record: &PodRecord, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if let Some(stop) = record.stop {
        stop_all(&mut plan, record, stop.grace, now);
        if !record.any_running() {
            plan.act(match stop.cause {
                StopCause::Deleted => Action::Remove,
                StopCause::Vanished | StopCause::PlatformStops => Action::Leave,
            });
        }
        return plan;
    }
    if record.outcome.is_some() {
        stop_all(&mut plan, record, rules.grace, now);
        if !record.any_running() {
            plan.act(Action::Release);
        }
        return plan;
    }
    if let Some(outcome) = outcome::decide(rules, record, now) {
        plan.act(Action::Conclude(outcome));
        return plan;
    }
    if let Some(deadline) = rules.deadline {
        plan.wake_at(record.since + deadline);
    }
    match record.sandbox {
        Sandbox::Preparing => {}
        Sandbox::Missing { retry_at: Some(at) } if now < at => plan.wake_at(at),
        Sandbox::Missing { .. } => plan.act(Action::Prepare),
        Sandbox::Ready => advance(&mut plan, rules, record, now),
    }
    plan
}

fn stop_all(plan: &mut Plan, record: &PodRecord, grace: Duration, now: Timestamp) {
    for (index, container) in record.containers.iter().enumerate() {
        if let Some(running) = container.running() {
            stop(plan, index, running, grace, now);
        }
    }
}

/// A stop that is under way may be hurried by a shorter grace, never slowed.
fn stop(plan: &mut Plan, container: usize, running: &Running, grace: Duration, now: Timestamp) {
    match running.stopping {
        None => plan.act(Action::Terminate { container, grace }),
        Some(stopping) if stopping.killed => {}
        Some(stopping) if now >= stopping.kill_at => plan.act(Action::Kill { container }),
        Some(stopping) if now + grace < stopping.kill_at => plan.act(Action::Terminate { container, grace }),
        Some(stopping) => plan.wake_at(stopping.kill_at),
    }
}

/// Init containers one after the other, sidecars as soon as their turn comes, then all main containers.
fn advance(plan: &mut Plan, rules: &PodRules, record: &PodRecord, now: Timestamp) {
    let mut may_go_on = true;
    for (index, (rules_of_one, container)) in rules.containers.iter().zip(&record.containers).enumerate() {
        if !may_go_on {
            break;
        }
        tend(plan, index, container, rules.grace, now);
        may_go_on = match rules_of_one.role {
            Role::Init => container.succeeded(),
            Role::Sidecar => container.runs > 1 || container.running().is_some_and(|running| running.started),
            Role::Main => true,
        };
    }
}

fn tend(plan: &mut Plan, index: usize, container: &ContainerRecord, grace: Duration, now: Timestamp) {
    if let Some(running) = container.running() {
        if running.condemned.is_some() {
            stop(plan, index, running, grace, now);
        }
        return;
    }
    match container.not_before {
        _ if container.done => {}
        Some(at) if now < at => plan.wake_at(at),
        _ => plan.act(Action::Start { container: index }),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
