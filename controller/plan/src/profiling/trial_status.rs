//! What the status of a trial says, and what is told about it.

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason,
    conditions::{MESSAGE_MAX, READY, State, shortened, whole_second},
    profiling_conditions::{self as conditions, CREATED, FAILED, KILLED, PENDING, RUNNING, SUCCEEDED},
    trial::{TrialFailure, TrialOutcome, TrialState, TrialStatus},
};
use serde_json::Value;

use super::{ended::Ended, under_test::ReadyPod};
use crate::plan::Plan;

/// Whether nothing is left to do.
pub fn is_over(status: &TrialStatus) -> bool {
    conditions::is_over(&status.conditions)
}

/// Whether the client has been seen at work.
pub fn is_measuring(status: &TrialStatus) -> bool {
    conditions::is_true(&status.conditions, RUNNING)
}

/// A trial that begins.
pub fn begin(status: &mut TrialStatus, now: Timestamp) {
    status.start_time = Some(whole_second(now).to_string());
    let list = &mut status.conditions;
    conditions::set(list, CREATED, State::True, Reason::Accepted, "the trial is known", now);
    conditions::set(list, READY, State::False, Reason::ServiceStarting, "", now);
    conditions::set(list, PENDING, State::True, Reason::ServiceStarting, "the service is on its way", now);
}

/// A trial whose spec cannot be read at all.
pub fn unreadable(problem: &str, now: Timestamp) -> TrialStatus {
    let mut status = TrialStatus::default();
    begin(&mut status, now);
    outcome(&mut status, TrialState::Failed, Some(TrialFailure::Infrastructure), Reason::InvalidSpec, problem, now);
    status
}

/// The service is on its way.
pub fn starting(status: &mut TrialStatus, trouble: Option<&Ended>, now: Timestamp) {
    let (reason, message) = trouble
        .map_or((Reason::ServiceStarting, "the service is on its way"), |trouble| (trouble.reason, &trouble.message));
    conditions::set(&mut status.conditions, PENDING, State::True, reason, message, now);
}

/// The service takes requests.
pub fn ready(status: &mut TrialStatus, pod: &ReadyPod, now: Timestamp) {
    status.service_pod = Some(pod.name.clone());
    status.node.clone_from(&pod.node);
    status.limits = pod.limits.as_ref().map(|limits| shortened(limits, 1_024));
    status.ready_time = Some(whole_second(now).to_string());
    let message = format!("pod {} is ready, the client is on its way", pod.name);
    conditions::set(&mut status.conditions, PENDING, State::True, Reason::Measuring, &message, now);
}

/// The client is at work.
pub fn measuring(status: &mut TrialStatus, now: Timestamp) {
    let list = &mut status.conditions;
    conditions::set(list, PENDING, State::False, Reason::Measuring, "", now);
    conditions::set(list, RUNNING, State::True, Reason::Measuring, "the service is under load", now);
    conditions::set(list, READY, State::False, Reason::Measuring, "", now);
}

/// It is known what came of it.
pub fn outcome(
    status: &mut TrialStatus,
    state: TrialState,
    failure: Option<TrialFailure>,
    reason: Reason,
    message: &str,
    now: Timestamp,
) {
    let began: Option<Timestamp> = status.start_time.as_ref().and_then(|time| time.parse().ok());
    let seconds = began.map_or(0, |began| (whole_second(now).as_second() - began.as_second()).max(0));
    let message = shortened(message, MESSAGE_MAX);
    status.outcome = Some(TrialOutcome { state, failure, reason: reason.as_str().to_owned(), message, seconds });
    cleaning(status, now);
}

/// What was made is on its way out.
pub fn cleaning(status: &mut TrialStatus, now: Timestamp) {
    let list = &mut status.conditions;
    if is_true(list, RUNNING) {
        conditions::set(list, RUNNING, State::True, Reason::CleaningUp, "its objects are on their way out", now);
    } else {
        conditions::set(list, PENDING, State::True, Reason::CleaningUp, "its objects are on their way out", now);
    }
}

fn is_true(list: &[conditions::ProfilingCondition], type_: &str) -> bool {
    conditions::is_true(list, type_)
}

/// Since when it has been known what came of it.
pub fn known_since(status: &TrialStatus) -> Option<Timestamp> {
    let began: Timestamp = status.start_time.as_ref()?.parse().ok()?;
    Timestamp::from_second(began.as_second() + status.outcome.as_ref()?.seconds).ok()
}

/// Nothing is left of it but what is named.
pub fn finish(status: &mut TrialStatus, left: &[String], now: Timestamp) {
    let Some(known) = status.outcome.clone() else { return };
    let reason = reason(&known.reason);
    let left =
        if left.is_empty() { String::new() } else { format!("; still there, and not going: {}", left.join(", ")) };
    let message = format!("{}{left}", known.message);
    let type_ = match known.state {
        TrialState::Succeeded => SUCCEEDED,
        TrialState::Failed => FAILED,
        TrialState::Killed => KILLED,
    };
    let list = &mut status.conditions;
    conditions::set(list, PENDING, State::False, Reason::Settled, "", now);
    if list.iter().any(|condition| condition.type_ == RUNNING) {
        conditions::set(list, RUNNING, State::False, Reason::Settled, "", now);
    }
    conditions::set(list, READY, State::from(known.state == TrialState::Succeeded), reason, &message, now);
    conditions::set(list, type_, State::True, reason, &message, now);
    status.completion_time = Some(whole_second(now).to_string());
}

/// The reason of that name.
pub fn reason(name: &str) -> Reason {
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == name).unwrap_or(Reason::Settled)
}

/// Tells once what came of it.
pub fn tell(plan: &mut Plan, live: &Value, before: &TrialStatus, after: &TrialStatus) {
    let (None, Some(known)) = (&before.outcome, &after.outcome) else { return };
    plan.tell(live, known.state == TrialState::Failed, reason(&known.reason), known.message.clone());
}
