//! Job conditions, with Kubernetes' types and reasons.

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

pub(crate) const SUSPENDED: &str = "Suspended";
pub(crate) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(crate) const COMPLETE: &str = "Complete";
pub(crate) const FAILURE_TARGET: &str = "FailureTarget";
pub(crate) const FAILED: &str = "Failed";

/// The condition of this type, when its status is `True`.
pub(crate) fn active<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

pub(crate) fn is_finished(status: &JobStatus) -> bool {
    active(status, COMPLETE).is_some() || active(status, FAILED).is_some()
}

/// Sets a condition; says whether its status changed.
pub(crate) fn set(
    status: &mut JobStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let wanted = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    if known.is_some_and(|at| conditions[at].status == wanted) {
        return false;
    }
    let condition = JobCondition {
        type_: type_.to_owned(),
        status: wanted.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    true
}
