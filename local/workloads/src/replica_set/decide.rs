//! Decides the next steps of a `ReplicaSet` from the set, its pods and the time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::rank;
use crate::pods::{self, Availability};
use crate::selector;

/// Pods created at a time; the next look creates more.
const MOST_CREATED: usize = 100;
/// Failed pods kept for a person to look at; their number also sets the pace of replacements.
const FAILED_KEPT: usize = 8;
/// Wait before replacing the first failed pod.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// A failure this long ago does not slow replacements down.
const FORGIVEN_AFTER: Duration = Duration::from_mins(10);
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Pods the set may have to do with, sorted by whose they are.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Claims {
    /// Uids of pods that match and belong to nobody.
    pub(crate) adopt: Vec<String>,
    /// Uids of own pods that do not match any more.
    pub(crate) orphan: Vec<String>,
}

/// What to do, in this order: delete, create, status.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReplicaSetPlan {
    /// Uids of pods.
    pub(crate) delete: Vec<String>,
    pub(crate) create: usize,
    /// The new status, when it differs.
    pub(crate) status: Option<ReplicaSetStatus>,
    pub(crate) next: Option<Duration>,
}

/// Which pods to take in or let go. `pods` are all pods of the namespace.
pub(crate) fn claims<P: AsRef<Pod>>(set: &ReplicaSet, pods: &[P]) -> Claims {
    let mut claims = Claims::default();
    let (Some(spec), Some(uid)) = (&set.spec, &set.metadata.uid) else { return claims };
    if set.metadata.deletion_timestamp.is_some() {
        return claims;
    }
    for pod in pods.iter().map(AsRef::as_ref) {
        let Some(pod_uid) = pod.uid() else { continue };
        let matches = selector::matches(&spec.selector, pod.labels());
        match pods::controller(&pod.metadata) {
            Some(owner) if owner.uid == *uid && !matches => claims.orphan.push(pod_uid),
            None if matches && pods::is_active(pod) => claims.adopt.push(pod_uid),
            _ => {}
        }
    }
    claims
}

/// The next steps. `pods` are all pods controlled by the set; `failure` is why a pod could not be created last time.
pub(crate) fn decide<P: AsRef<Pod>>(
    set: &ReplicaSet,
    pods: &[P],
    failure: Option<&str>,
    now: Timestamp,
) -> ReplicaSetPlan {
    let mut plan = ReplicaSetPlan::default();
    let Some(spec) = &set.spec else { return plan };
    let active: Vec<&Pod> = pods.iter().map(AsRef::as_ref).filter(|pod| pods::is_active(pod)).collect();
    if set.metadata.deletion_timestamp.is_none() {
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        replace_failed(pods, wanted.saturating_sub(active.len()).min(MOST_CREATED), now, &mut plan);
        if active.len() > wanted {
            let mut surplus = active.clone();
            rank::sort(&mut surplus);
            surplus.truncate(active.len() - wanted);
            plan.delete.extend(surplus.into_iter().filter_map(ResourceExt::uid));
        }
    }
    // Counted without the pods about to go, so that a Deployment never builds on them.
    let kept: Vec<&Pod> = active
        .into_iter()
        .filter(|pod| pod.metadata.uid.as_ref().is_none_or(|uid| !plan.delete.contains(uid)))
        .collect();
    let (status, ripe) = status(set, &kept, pods, failure, now);
    plan.status = (set.status.as_ref() != Some(&status)).then_some(status);
    plan.next = earlier(plan.next, ripe);
    plan
}

/// Creates what is missing, slower the more pods failed lately, and keeps only the newest failed ones.
fn replace_failed<P: AsRef<Pod>>(pods: &[P], missing: usize, now: Timestamp, plan: &mut ReplicaSetPlan) {
    let over = |pod: &&Pod| pods::is_terminal(pod) && !pods::is_terminating(pod);
    let mut over: Vec<(Option<Timestamp>, &Pod)> =
        pods.iter().map(AsRef::as_ref).filter(over).map(|pod| (pods::finished_at(pod), pod)).collect();
    over.sort_by_key(|(end, pod)| (std::cmp::Reverse(*end), pod.name_any()));
    plan.delete.extend(over.iter().skip(FAILED_KEPT).filter_map(|(_, pod)| pod.uid()));
    if missing == 0 {
        return;
    }
    let blamed = over.iter().filter(|(_, pod)| !pods::is_disrupted(pod));
    let ages = blamed.filter_map(|(end, _)| Duration::try_from(now.duration_since((*end)?)).ok());
    let recent: Vec<Duration> = ages.filter(|age| *age < FORGIVEN_AFTER).collect();
    let delay = match u32::try_from(recent.len()).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        failures => FIRST_DELAY * (1 << (failures - 1).min(8)),
    };
    let wait = delay.saturating_sub(recent.iter().min().copied().unwrap_or_default());
    if wait.is_zero() {
        plan.create = missing;
    } else {
        plan.next = Some(wait);
    }
}

fn status<P: AsRef<Pod>>(
    set: &ReplicaSet,
    active: &[&Pod],
    pods: &[P],
    failure: Option<&str>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let spec = set.spec.clone().unwrap_or_default();
    let template = spec.template.and_then(|template| template.metadata).and_then(|meta| meta.labels);
    let template = template.unwrap_or_default();
    let mut available = 0;
    let mut ripe = None;
    for pod in active {
        match pods::availability(pod, spec.min_ready_seconds.unwrap_or(0), now) {
            Availability::Available => available += 1,
            Availability::In(seconds) => {
                ripe = earlier(ripe, Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(1))));
            }
            Availability::NotReady => {}
        }
    }
    let labelled = active.iter().filter(|pod| template.iter().all(|(k, v)| pod.labels().get(k) == Some(v)));
    let stopping = pods.iter().map(AsRef::as_ref).filter(|pod| pods::is_terminating(pod) && !pods::is_terminal(pod));
    let status = ReplicaSetStatus {
        replicas: number(active.len()),
        fully_labeled_replicas: Some(number(labelled.count())),
        ready_replicas: Some(number(active.iter().filter(|pod| pods::is_ready(pod)).count())),
        available_replicas: Some(available),
        terminating_replicas: Some(number(stopping.count())),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
    };
    (zero_as_absent(status), ripe)
}

/// Kubernetes leaves zero counts out, except `replicas`.
fn zero_as_absent(mut status: ReplicaSetStatus) -> ReplicaSetStatus {
    for count in [
        &mut status.fully_labeled_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
        &mut status.terminating_replicas,
    ] {
        *count = count.filter(|count| *count != 0);
    }
    status
}

fn conditions(set: &ReplicaSet, failure: Option<&str>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let known = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut rest: Vec<_> = known.iter().filter(|condition| condition.type_ != REPLICA_FAILURE).cloned().collect();
    if let Some(message) = failure {
        let before = known.iter().find(|condition| condition.type_ == REPLICA_FAILURE);
        rest.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.into(),
            status: "True".into(),
            reason: Some("FailedCreate".into()),
            message: Some(message.to_owned()),
            last_transition_time: before
                .and_then(|condition| condition.last_transition_time.clone())
                .or(Some(Time(now))),
        });
    }
    (!rest.is_empty()).then_some(rest)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};
    use std::sync::Arc;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn set(replicas: i32) -> ReplicaSet {
        from_value(json!({
            "metadata": {"name": "web-1", "namespace": "default", "uid": "set", "generation": 3},
            "spec": {
                "replicas": replicas, "minReadySeconds": 0, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
            }
        }))
        .unwrap()
    }

    fn pod(uid: &str, owner: Option<&str>, labels: &Value, phase: &str, ready_since: Option<&str>) -> Arc<Pod> {
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let conditions: Vec<_> = ready_since
            .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}))
            .into_iter()
            .collect();
        let pod = json!({
            "metadata": {"name": uid, "uid": uid, "namespace": "default", "labels": labels, "ownerReferences": owners,
                "creationTimestamp": NOW},
            "status": {"phase": phase, "conditions": conditions}
        });
        Arc::new(from_value(pod).unwrap())
    }

    fn mine(uid: &str, phase: &str, ready_since: Option<&str>) -> Arc<Pod> {
        pod(uid, Some("set"), &json!({"app": "web"}), phase, ready_since)
    }

    #[test]
    fn creates_what_is_missing_and_deletes_what_is_too_much() {
        let pods = [mine("a", "Running", Some(NOW)), mine("b", "Running", None)];
        assert_eq!(decide(&set(5), &pods, None, now()).create, 3);
        let plan = decide(&set(1), &pods, None, now());
        assert_eq!((plan.create, plan.delete), (0, vec!["b".to_owned()]), "the one that is not ready goes");
    }

    #[test]
    fn adopts_matching_orphans_and_lets_go_of_strangers() {
        let pods = [
            pod("free", None, &json!({"app": "web"}), "Running", None),
            pod("taken", Some("other"), &json!({"app": "web"}), "Running", None),
            pod("relabelled", Some("set"), &json!({"app": "debug"}), "Running", None),
            pod("done", None, &json!({"app": "web"}), "Failed", None),
        ];
        let expected = Claims { adopt: vec!["free".into()], orphan: vec!["relabelled".into()] };
        assert_eq!(claims(&set(1), &pods), expected);
    }

    #[test]
    fn a_pod_is_available_after_its_minimum_ready_time() {
        let mut set = set(1);
        set.spec.as_mut().unwrap().min_ready_seconds = Some(20);
        let pods = [mine("a", "Running", Some("2026-01-01T00:00:45Z"))];
        let plan = decide(&set, &pods, None, now());
        let status = plan.status.unwrap();
        assert_eq!((status.ready_replicas, status.available_replicas), (Some(1), None));
        assert_eq!(plan.next, Some(Duration::from_secs(5)));
    }

    #[test]
    fn failing_pods_are_replaced_ever_more_slowly_and_do_not_pile_up() {
        let failed: Vec<_> = (0..12).map(|n| mine(&format!("f{n:02}"), "Failed", None)).collect();
        let one = decide(&set(1), &failed[..1], None, now());
        assert_eq!((one.create, one.next), (0, Some(FIRST_DELAY)));
        let many = decide(&set(1), &failed, None, now());
        assert_eq!(many.delete.len(), 4);
        assert!(many.create == 0 && many.next > Some(Duration::from_mins(1)));
    }

    #[test]
    fn writes_no_status_when_nothing_changed() {
        let mut set = set(1);
        let pods = [mine("a", "Running", Some(NOW))];
        set.status = decide(&set, &pods, None, now()).status;
        assert_eq!(decide(&set, &pods, None, now()), ReplicaSetPlan::default());
        let failing = decide(&set, &pods, Some("quota"), now()).status.unwrap();
        assert_eq!(failing.conditions.unwrap()[0].reason.as_deref(), Some("FailedCreate"));
    }
}
