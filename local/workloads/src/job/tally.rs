//! Counts finished pods so that none is counted twice and none is lost, wherever the controller stops.
//!
//! A pod carries a finalizer until it is counted. A finished pod's uid is first written to `uncountedTerminatedPods`;
//! only then is its finalizer removed; only when that is seen is the uid moved into the counter, in one write.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::failure::{Meaning, meaning};
use crate::pods;

/// Keeps a pod until it is counted.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Uids added to the status at a time; bounds its size.
const MOST_UNCOUNTED: usize = 500;

/// The pod is not counted yet.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// The count after one look at the pods.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Pods that succeeded, counted or about to be.
    pub(crate) succeeded: i32,
    pub(crate) failed: i32,
    /// Pods whose finalizer may go once the status is written.
    pub(crate) release: Vec<String>,
    /// A pod failed in a way that fails the Job.
    pub(crate) fail_job: Option<String>,
    /// Every finished pod is in the counters.
    pub(crate) settled: bool,
}

/// Updates counters and uncounted pods in `status`. `ending` = the Job is over, pods still ending count as failed.
pub(crate) fn tally<P: AsRef<Pod>>(job: &Job, pods: &[P], status: &mut JobStatus, ending: bool) -> Tally {
    let tracked: Vec<&Pod> = pods.iter().map(AsRef::as_ref).filter(|pod| is_tracked(pod)).collect();
    let tracked_uids: HashSet<String> = tracked.iter().filter_map(|pod| pod.uid()).collect();
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let succeeded = uncounted.succeeded.get_or_insert_default();
    settle(succeeded, &tracked_uids, &mut status.succeeded);
    let failed = uncounted.failed.get_or_insert_default();
    settle(failed, &tracked_uids, &mut status.failed);

    let mut tally = Tally::default();
    let known: HashSet<String> = succeeded.iter().chain(failed.iter()).cloned().collect();
    tally.release.extend(known.iter().cloned());
    let (mut more_succeeded, mut more_failed) = (0, 0);
    for pod in tracked {
        let uid = pod.uid().unwrap_or_default();
        if known.contains(&uid) {
            continue;
        }
        let room = succeeded.len() + failed.len() < MOST_UNCOUNTED;
        let list = if pods::succeeded(pod) {
            more_succeeded += 1;
            &mut *succeeded
        } else if counts_as_failed(job, pod, ending) {
            match meaning(job, pod) {
                Meaning::Ignore => {
                    tally.release.push(uid);
                    continue;
                }
                Meaning::FailJob(message) => {
                    tally.fail_job.get_or_insert(message);
                }
                Meaning::Count => {}
            }
            more_failed += 1;
            &mut *failed
        } else {
            continue;
        };
        if room {
            list.push(uid.clone());
            tally.release.push(uid);
        }
    }
    tally.settled = known.is_empty() && more_succeeded == 0 && more_failed == 0;
    tally.succeeded = status.succeeded.unwrap_or(0) + count(uncounted.succeeded.as_ref(), &known) + more_succeeded;
    tally.failed = status.failed.unwrap_or(0) + count(uncounted.failed.as_ref(), &known) + more_failed;
    status.uncounted_terminated_pods = tidy(uncounted);
    tally
}

/// Moves uids whose finalizer is gone into the counter.
fn settle(uids: &mut Vec<String>, tracked: &HashSet<String>, counter: &mut Option<i32>) {
    let before = uids.len();
    uids.retain(|uid| tracked.contains(uid));
    let counted = i32::try_from(before - uids.len()).unwrap_or(i32::MAX);
    if counted > 0 {
        *counter = Some(counter.unwrap_or(0).saturating_add(counted));
    }
}

fn count(uids: Option<&Vec<String>>, known: &HashSet<String>) -> i32 {
    let known = uids.into_iter().flatten().filter(|uid| known.contains(*uid)).count();
    i32::try_from(known).unwrap_or(i32::MAX)
}

fn tidy(uncounted: UncountedTerminatedPods) -> Option<UncountedTerminatedPods> {
    let succeeded = uncounted.succeeded.filter(|uids| !uids.is_empty());
    let failed = uncounted.failed.filter(|uids| !uids.is_empty());
    (succeeded.is_some() || failed.is_some()).then_some(UncountedTerminatedPods { succeeded, failed })
}

/// A pod that somebody deleted counts as failed at once, unless the Job replaces only pods that have ended.
fn counts_as_failed(job: &Job, pod: &Pod, ending: bool) -> bool {
    pods::failed(pod) || (pods::is_terminating(pod) && (ending || !waits_for_end(job)))
}

/// The Job starts a replacement only when the pod before has ended.
pub(crate) fn waits_for_end(job: &Job) -> bool {
    let Some(spec) = &job.spec else { return false };
    match spec.pod_replacement_policy.as_deref() {
        Some(policy) => policy == "Failed",
        None => spec.pod_failure_policy.is_some(),
    }
}
