//! The status of a Deployment, with the conditions that `kubectl rollout status` reads.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::intent::Intent;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// What happened to the new set in this step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NewSet<'a> {
    /// There is none, and none is made now.
    Absent,
    Created(&'a str),
    Found(&'a ReplicaSet),
}

/// The status now, and when the progress deadline must be looked at.
pub(crate) fn status(
    deployment: &Deployment,
    intent: &Intent,
    new: NewSet<'_>,
    sets: &[&ReplicaSet],
    now: Timestamp,
) -> (DeploymentStatus, Option<Duration>) {
    let before = deployment.status.clone().unwrap_or_default();
    let mut status = counts(deployment, &before, new, sets);
    status.conditions.clone_from(&before.conditions);
    let mut conditions = Conditions { list: status.conditions.take().unwrap_or_default(), now };
    if status.available_replicas.unwrap_or(0) >= intent.min_available() {
        conditions.set(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set(AVAILABLE, "False", "MinimumReplicasUnavailable", message);
    }
    progress(&mut conditions, deployment, intent, new, &before, &status);
    copy_failure(&mut conditions, new);
    let wait = deadline_wait(&conditions, intent, now);
    status.conditions = Some(conditions.list);
    (status, wait)
}

fn counts(
    deployment: &Deployment,
    before: &DeploymentStatus,
    new: NewSet<'_>,
    sets: &[&ReplicaSet],
) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSet) -> i32| sets.iter().map(|set| count(set)).fold(0, i32::saturating_add);
    let total = sum(|set| set.status.as_ref().map_or(0, |status| status.replicas));
    let ready = sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0));
    let available = sum(|set| set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0));
    let terminating = sum(|set| set.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0));
    let updated = match new {
        NewSet::Found(set) => set.status.as_ref().map_or(0, |status| status.replicas),
        NewSet::Absent | NewSet::Created(_) => 0,
    };
    let some = |count: i32| (count > 0).then_some(count);
    DeploymentStatus {
        replicas: some(total),
        ready_replicas: some(ready),
        available_replicas: some(available),
        unavailable_replicas: some(total - available),
        updated_replicas: some(updated),
        terminating_replicas: some(terminating),
        observed_generation: deployment.metadata.generation,
        collision_count: before.collision_count,
        conditions: None,
    }
}

/// Everything asked for is there and nothing else.
pub(crate) fn is_complete(deployment: &Deployment, intent: &Intent, status: &DeploymentStatus) -> bool {
    status.updated_replicas.unwrap_or(0) == intent.replicas
        && status.replicas.unwrap_or(0) == intent.replicas
        && status.available_replicas.unwrap_or(0) == intent.replicas
        && status.observed_generation >= deployment.metadata.generation
}

fn progress(
    conditions: &mut Conditions,
    deployment: &Deployment,
    intent: &Intent,
    new: NewSet<'_>,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
) {
    let reason = conditions.reason(PROGRESSING);
    if intent.paused {
        if reason.as_deref() != Some(PAUSED) && reason.as_deref() != Some(DEADLINE_EXCEEDED) {
            conditions.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused");
        }
        return;
    }
    if reason.as_deref() == Some(PAUSED) {
        conditions.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed");
    }
    if intent.progress_deadline_seconds.is_none() {
        return;
    }
    let set = match new {
        NewSet::Absent => return,
        NewSet::Created(name) => {
            let message = format!("Created new replica set \"{name}\"");
            return conditions.set(PROGRESSING, "True", "NewReplicaSetCreated", &message);
        }
        NewSet::Found(set) => set.name_any(),
    };
    if reason.is_none() {
        conditions.set(PROGRESSING, "True", "FoundNewReplicaSet", &format!("Found new replica set \"{set}\""));
    }
    let rests = status.replicas == status.updated_replicas && reason.as_deref() == Some(NEW_SET_AVAILABLE);
    if rests {
        return;
    }
    if is_complete(deployment, intent, status) {
        let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
        conditions.set(PROGRESSING, "True", NEW_SET_AVAILABLE, &message);
    } else if is_progressing(before, status) {
        let message = format!("ReplicaSet \"{set}\" is progressing.");
        conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", &message);
    } else if is_overdue(conditions, intent) {
        let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
        conditions.set(PROGRESSING, "False", DEADLINE_EXCEEDED, &message);
    }
}

fn is_progressing(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    now.updated_replicas.unwrap_or(0) > before.updated_replicas.unwrap_or(0)
        || old(now) < old(before)
        || now.ready_replicas.unwrap_or(0) > before.ready_replicas.unwrap_or(0)
        || now.available_replicas.unwrap_or(0) > before.available_replicas.unwrap_or(0)
}

fn is_overdue(conditions: &Conditions, intent: &Intent) -> bool {
    match conditions.reason(PROGRESSING).as_deref() {
        Some(DEADLINE_EXCEEDED) => true,
        Some(NEW_SET_AVAILABLE) | None => false,
        Some(_) => deadline_left(conditions, intent, conditions.now).is_some_and(|left| left.is_zero()),
    }
}

fn deadline_left(conditions: &Conditions, intent: &Intent, now: Timestamp) -> Option<Duration> {
    let deadline = Duration::from_secs(u64::try_from(intent.progress_deadline_seconds?).unwrap_or(0));
    let since = conditions.find(PROGRESSING)?.last_update_time.as_ref()?.0;
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(deadline.saturating_sub(waited))
}

fn deadline_wait(conditions: &Conditions, intent: &Intent, now: Timestamp) -> Option<Duration> {
    match conditions.reason(PROGRESSING).as_deref() {
        None | Some(NEW_SET_AVAILABLE | DEADLINE_EXCEEDED | PAUSED) => None,
        Some(_) => deadline_left(conditions, intent, now).map(|left| left + Duration::from_secs(1)),
    }
}

/// A set that cannot create its pods makes the Deployment say so.
fn copy_failure(conditions: &mut Conditions, new: NewSet<'_>) {
    let failure = match new {
        NewSet::Found(set) => set.status.as_ref().and_then(|status| status.conditions.as_ref()),
        NewSet::Absent | NewSet::Created(_) => None,
    };
    let failure = failure.and_then(|list| list.iter().find(|condition| condition.type_ == REPLICA_FAILURE));
    match failure {
        Some(failure) => conditions.set(
            REPLICA_FAILURE,
            &failure.status,
            failure.reason.as_deref().unwrap_or_default(),
            failure.message.as_deref().unwrap_or_default(),
        ),
        None => conditions.list.retain(|condition| condition.type_ != REPLICA_FAILURE),
    }
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn find(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    fn reason(&self, type_: &str) -> Option<String> {
        self.find(type_)?.reason.clone()
    }

    /// Sets a condition; one with the same status and reason stays as it is.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let same = |known: &DeploymentCondition| known.status == status && known.reason.as_deref() == Some(reason);
        if !self.find(type_).is_some_and(same) {
            self.renew(type_, status, reason, message);
        }
    }

    /// Sets a condition and its update time; the transition time moves only with the status.
    fn renew(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let now = Some(Time(self.now));
        let since = self.find(type_).filter(|known| known.status == status).map(|k| k.last_transition_time.clone());
        let condition = DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: now.clone(),
            last_transition_time: since.unwrap_or(now),
        };
        match self.list.iter_mut().find(|known| known.type_ == type_) {
            Some(known) => *known = condition,
            None => self.list.push(condition),
        }
    }
}
