//! A Job's pods: how they are made, and when a failed one may be replaced.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::failure::{Meaning, meaning};
use super::tally::TRACKING;
use crate::pods;

/// Longest wait before a replacement.
const LONGEST_DELAY: Duration = Duration::from_mins(6);

/// A new pod of the Job.
pub(crate) fn new_pod(job: &Job) -> Pod {
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = pods::from_template(&template, job);
    let uid = job.uid().unwrap_or_default();
    let labels = pod.metadata.labels.get_or_insert_default();
    for name in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
        labels.insert(name.into(), uid.clone());
    }
    for name in ["batch.kubernetes.io/job-name", "job-name"] {
        labels.insert(name.into(), label_value(&job.name_any()));
    }
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    pod
}

/// A label value has at most 63 characters; names may be longer.
fn label_value(name: &str) -> String {
    let mut value = name.to_owned();
    value.truncate(63);
    value.trim_end_matches(['-', '.']).to_owned()
}

/// How long a replacement must still wait: after the first failure in a row a tenth of `base`, then `base`, doubling.
pub(crate) fn replacement_delay<P: AsRef<Pod>>(job: &Job, pods: &[P], base: Duration, now: Timestamp) -> Duration {
    let pods = pods.iter().map(AsRef::as_ref);
    let last_success = pods.clone().filter(|pod| pods::succeeded(pod)).filter_map(pods::finished_at).max();
    let failures: Vec<Timestamp> = pods
        .filter(|pod| pods::failed(pod) && meaning(job, pod) != Meaning::Ignore)
        .filter_map(pods::finished_at)
        .filter(|end| last_success.is_none_or(|success| *end > success))
        .collect();
    let Some(last) = failures.iter().max() else { return Duration::ZERO };
    let ready_at = delay_after(failures.len(), base);
    let waited = Duration::try_from(now.duration_since(*last)).unwrap_or_default();
    ready_at.saturating_sub(waited)
}

fn delay_after(failures: usize, base: Duration) -> Duration {
    match u32::try_from(failures).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        1 => base / 10,
        more => base.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn waits_longer_with_each_failure_in_a_row() {
        let base = Duration::from_secs(10);
        let delays: Vec<u64> = (0..9).map(|failures| delay_after(failures, base).as_secs()).collect();
        assert_eq!(delays, [0, 1, 10, 20, 40, 80, 160, 320, 360]);
    }

    #[test]
    fn a_success_ends_the_row() {
        let job = Job { spec: Some(from_value(json!({"template": {}})).unwrap()), ..Job::default() };
        let pod = |phase: &str, end: &str| -> Pod {
            from_value(json!({"status": {"phase": phase, "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "finishedAt": end}}}]}}))
            .unwrap()
        };
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let failures: Vec<std::sync::Arc<Pod>> =
            ["2026-01-01T00:00:01Z", "2026-01-01T00:00:05Z"].map(|end| std::sync::Arc::new(pod("Failed", end))).into();
        let base = Duration::from_secs(10);
        assert_eq!(replacement_delay(&job, &failures, base, now), Duration::from_secs(5));
        let mut mixed = failures;
        mixed.push(std::sync::Arc::new(pod("Succeeded", "2026-01-01T00:00:06Z")));
        assert_eq!(replacement_delay(&job, &mixed, base, now), Duration::ZERO);
    }

    #[test]
    fn pods_carry_the_job_labels_and_the_tracking_finalizer() {
        let job: Job = from_value(json!({
            "metadata": {"name": "train", "namespace": "default", "uid": "u1"},
            "spec": {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}}
        }))
        .unwrap();
        let pod = new_pod(&job);
        assert_eq!(pod.labels()["batch.kubernetes.io/job-name"], "train");
        assert_eq!(pod.labels()["app"], "a");
        assert_eq!(pod.finalizers(), [TRACKING]);
        assert_eq!(pods::controller(&pod.metadata).unwrap().uid, "u1");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("train-"));
    }
}
