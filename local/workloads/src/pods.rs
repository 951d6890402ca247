//! What controllers ask about a pod, and how they make one from a template.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

/// The API server adds five characters to it; names end at 63 so that they fit a label.
const GENERATED_PREFIX: usize = 57;

/// `status.phase`, with `Pending` for a pod nobody has looked at.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(crate) fn succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

pub(crate) fn failed(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// Its containers will never run again.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    succeeded(pod) || failed(pod)
}

pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Runs or will run, and nobody asked it to stop.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_terminating(pod)
}

pub(crate) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// The pod was stopped by the platform, not by its program.
pub(crate) fn is_disrupted(pod: &Pod) -> bool {
    condition(pod, "DisruptionTarget").is_some_and(|condition| condition.status == "True")
}

/// When the pod became ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// When a ready pod is available: at once, or after it was ready for the minimum time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Available,
    /// Ready, but for too short a time yet; the rest in seconds.
    In(i64),
    NotReady,
}

pub(crate) fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !is_ready(pod) || is_terminating(pod) {
        return Availability::NotReady;
    }
    if min_ready_seconds <= 0 {
        return Availability::Available;
    }
    let since = ready_since(pod).unwrap_or(now);
    let left = since.as_second() + i64::from(min_ready_seconds) - now.as_second();
    if left <= 0 { Availability::Available } else { Availability::In(left) }
}

/// When the last container of a finished pod ended, as near as the pod tells.
pub(crate) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let ends = containers
        .iter()
        .filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0));
    ends.max()
        .or_else(|| {
            let conditions = status?.conditions.as_deref()?;
            conditions.iter().filter_map(|condition| condition.last_transition_time.as_ref()).map(|time| time.0).max()
        })
        .or_else(|| pod.metadata.deletion_timestamp.as_ref().map(|time| time.0))
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Restarts of all containers.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let Some(status) = pod.status.as_ref() else { return 0 };
    let all = [status.init_container_statuses.as_deref(), status.container_statuses.as_deref()];
    all.into_iter().flatten().flatten().fold(0, |sum: i32, container| sum.saturating_add(container.restart_count))
}

/// The controlling owner.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// The object is controlled by the owner with this uid.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    controller(meta).is_some_and(|owner| owner.uid == uid)
}

/// A controlling reference to `owner`.
pub(crate) fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A new pod from a template, owned by `owner`; the server chooses the rest of its name.
pub(crate) fn from_template<K: Resource<DynamicType = ()>>(template: &PodTemplateSpec, owner: &K) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut prefix = owner.name_any();
    prefix.truncate(GENERATED_PREFIX);
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            namespace: owner.namespace(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
