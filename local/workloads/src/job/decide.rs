//! Decides the next steps of a Job from the Job, its pods and the time.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::conditions::{self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED};
use super::pod::replacement_delay;
use super::tally::{self, Tally, is_tracked, waits_for_end};
use crate::events::Note;
use crate::pods;

const DEFAULT_BACKOFF_LIMIT: i32 = 6;
/// Pods created at a time; the next look creates more.
const MOST_CREATED: usize = 100;

/// What to do, in this order: status, release, delete, create.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobPlan {
    /// The new status, when it differs. Releases need it written first.
    pub(crate) status: Option<JobStatus>,
    pub(crate) notes: Vec<Note>,
    /// Uids of pods that lose the tracking finalizer.
    pub(crate) release: Vec<String>,
    /// Uids of pods to delete; these are counted as failed.
    pub(crate) delete: Vec<String>,
    /// Uids of pods to delete that are not counted: the Job does not want them any more.
    pub(crate) discard: Vec<String>,
    pub(crate) create: usize,
    /// The Job outlived its `ttlSecondsAfterFinished`.
    pub(crate) delete_job: bool,
    /// Look again after this time.
    pub(crate) next: Option<Duration>,
}

/// How the Job ends.
struct Ending {
    failed: bool,
    reason: String,
    message: String,
}

/// The next steps. `pods` are all pods controlled by the Job.
pub(crate) fn decide<P: AsRef<Pod>>(job: &Job, pods: &[P], base: Duration, now: Timestamp) -> JobPlan {
    let Some(spec) = &job.spec else { return JobPlan::default() };
    let before = job.status.clone().unwrap_or_default();
    if spec.managed_by.as_deref().is_some_and(|manager| manager != "kubernetes.io/job-controller") {
        return JobPlan::default();
    }
    if job.metadata.deletion_timestamp.is_some() {
        return JobPlan { release: ended(pods), ..JobPlan::default() };
    }
    if conditions::is_finished(&before) {
        return after_the_end(spec, &before, pods, now);
    }
    let mut plan = JobPlan::default();
    let mut status = before.clone();
    let suspended = start_or_suspend(spec, &mut status, &mut plan, now);
    let is_ending = [FAILURE_TARGET, SUCCESS_CRITERIA_MET].iter().any(|t| conditions::active(&before, t).is_some());
    let tally = tally::tally(job, pods, &mut status, is_ending);
    let ending = ending_of(spec, &before, &tally, pods, suspended, now);
    count_running(pods, &mut status);
    match ending {
        Some(ending) => end(&ending, &tally, pods, &mut status, &mut plan, now),
        None => keep_running(job, spec, &tally, pods, suspended, base, now, &mut plan),
    }
    if let (None, Some(left)) = (conditions::active(&status, FAILED), deadline_left(spec, &status, suspended, now)) {
        plan.next = Some(plan.next.map_or(left, |next| next.min(left)));
    }
    plan.release = tally.release;
    plan.status = (status != before).then_some(status);
    plan
}

/// Keeps `startTime` and the `Suspended` condition; says whether the Job is suspended.
fn start_or_suspend(spec: &JobSpec, status: &mut JobStatus, plan: &mut JobPlan, now: Timestamp) -> bool {
    let suspended = spec.suspend.unwrap_or(false);
    let was_suspended = conditions::active(status, SUSPENDED).is_some();
    if suspended {
        if conditions::set(status, SUSPENDED, true, "JobSuspended", "Job suspended", now) {
            plan.notes.push(Note::normal("Suspended", "Job suspended"));
        }
    } else if was_suspended {
        conditions::set(status, SUSPENDED, false, "JobResumed", "Job resumed", now);
        status.start_time = Some(Time(now));
        plan.notes.push(Note::normal("Resumed", "Job resumed"));
    } else if status.start_time.is_none() {
        status.start_time = Some(Time(now));
    }
    suspended
}

fn count_running<P: AsRef<Pod>>(pods: &[P], status: &mut JobStatus) {
    let count = |wanted: fn(&Pod) -> bool| {
        i32::try_from(pods.iter().filter(|pod| wanted(pod.as_ref())).count()).unwrap_or(i32::MAX)
    };
    let active = count(pods::is_active);
    status.active = (active > 0).then_some(active);
    status.ready = Some(count(|pod| pods::is_active(pod) && pods::is_ready(pod)));
    status.terminating = Some(count(|pod| pods::is_terminating(pod) && !pods::is_terminal(pod)));
}

/// Whether and how the Job is over.
fn ending_of<P: AsRef<Pod>>(
    spec: &JobSpec,
    before: &JobStatus,
    tally: &Tally,
    pods: &[P],
    suspended: bool,
    now: Timestamp,
) -> Option<Ending> {
    for (type_, failed) in [(FAILURE_TARGET, true), (SUCCESS_CRITERIA_MET, false)] {
        if let Some(known) = conditions::active(before, type_) {
            let reason = known.reason.clone().unwrap_or_default();
            return Some(Ending { failed, reason, message: known.message.clone().unwrap_or_default() });
        }
    }
    let failed = |reason: &str, message: String| Some(Ending { failed: true, reason: reason.to_owned(), message });
    if let Some(message) = unsupported(spec) {
        return failed("NotSupported", message);
    }
    if let Some(message) = &tally.fail_job {
        return failed("PodFailurePolicy", message.clone());
    }
    if exceeds_backoff_limit(spec, tally, pods) {
        return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit".into());
    }
    if deadline_left(spec, before, suspended, now) == Some(Duration::ZERO) {
        return failed("DeadlineExceeded", "Job was active longer than specified deadline".into());
    }
    let active = pods.iter().any(|pod| pods::is_active(pod.as_ref()));
    let enough = match spec.completions {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0,
    };
    let complete = !suspended && enough && !active;
    complete.then(|| Ending {
        failed: false,
        reason: "CompletionsReached".into(),
        message: "Reached expected number of succeeded pods".into(),
    })
}

/// What these Jobs cannot do, said instead of a Job that never ends.
fn unsupported(spec: &JobSpec) -> Option<String> {
    if spec.completion_mode.as_deref() == Some("Indexed") {
        return Some("completionMode Indexed is not supported here; use NonIndexed".into());
    }
    let policy = spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref());
    if !matches!(policy, Some("Never" | "OnFailure")) {
        let found = policy.unwrap_or("(none)");
        return Some(format!("spec.template.spec.restartPolicy is {found}; a Job needs Never or OnFailure"));
    }
    None
}

fn exceeds_backoff_limit<P: AsRef<Pod>>(spec: &JobSpec, tally: &Tally, pods: &[P]) -> bool {
    let limit = spec.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT);
    if tally.failed > limit {
        return true;
    }
    let restarts_in_place =
        spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref()) == Some("OnFailure");
    if !restarts_in_place {
        return false;
    }
    let active = pods.iter().map(AsRef::as_ref).filter(|pod| pods::is_active(pod));
    let restarts: i32 = active.map(pods::restarts).fold(0, i32::saturating_add);
    restarts > 0 && restarts >= limit
}

/// Time until `activeDeadlineSeconds`; zero when it has passed.
fn deadline_left(spec: &JobSpec, status: &JobStatus, suspended: bool, now: Timestamp) -> Option<Duration> {
    let deadline = spec.active_deadline_seconds.filter(|_| !suspended)?;
    let start = status.start_time.as_ref()?.0;
    left_of(start, deadline, now)
}

fn left_of(start: Timestamp, seconds: i64, now: Timestamp) -> Option<Duration> {
    let waited = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    Some(Duration::from_secs(u64::try_from(seconds).ok()?).saturating_sub(waited))
}

/// The Job is over: first the reason, then its pods end and are counted, then the final condition.
fn end<P: AsRef<Pod>>(
    ending: &Ending,
    tally: &Tally,
    pods: &[P],
    status: &mut JobStatus,
    plan: &mut JobPlan,
    now: Timestamp,
) {
    let (first, last) = if ending.failed { (FAILURE_TARGET, FAILED) } else { (SUCCESS_CRITERIA_MET, COMPLETE) };
    conditions::set(status, first, true, &ending.reason, &ending.message, now);
    plan.delete = uids(pods, pods::is_active);
    let all_ended = pods.iter().all(|pod| pods::is_terminal(pod.as_ref()));
    if !tally.settled || !all_ended {
        return;
    }
    conditions::set(status, last, true, &ending.reason, &ending.message, now);
    if ending.failed {
        plan.notes.push(Note::warning(static_reason(&ending.reason), ending.message.clone()));
    } else {
        status.completion_time = Some(Time(now));
        plan.notes.push(Note::normal("Completed", "Job completed"));
    }
}

fn static_reason(reason: &str) -> &'static str {
    match reason {
        "BackoffLimitExceeded" => "BackoffLimitExceeded",
        "DeadlineExceeded" => "DeadlineExceeded",
        "PodFailurePolicy" => "PodFailurePolicy",
        "NotSupported" => "NotSupported",
        _ => "Failed",
    }
}

#[expect(clippy::too_many_arguments, reason = "all of them are inputs of one decision")]
fn keep_running<P: AsRef<Pod>>(
    job: &Job,
    spec: &JobSpec,
    tally: &Tally,
    pods: &[P],
    suspended: bool,
    base: Duration,
    now: Timestamp,
    plan: &mut JobPlan,
) {
    let active: Vec<&Pod> = pods.iter().map(AsRef::as_ref).filter(|pod| pods::is_active(pod)).collect();
    let wanted = if suspended { 0 } else { wanted(spec, tally, active.len()) };
    if active.len() > wanted {
        plan.discard = least_valuable(active, wanted);
        return;
    }
    let mut occupied = active.len();
    if waits_for_end(job) {
        occupied += uids(pods, |pod| pods::is_terminating(pod) && !pods::is_terminal(pod)).len();
    }
    let missing = wanted.saturating_sub(occupied).min(MOST_CREATED);
    if missing == 0 {
        return;
    }
    let wait = replacement_delay(job, pods, base, now);
    if wait.is_zero() {
        plan.create = missing;
    } else {
        plan.next = Some(wait);
    }
}

/// Pods that should be active.
fn wanted(spec: &JobSpec, tally: &Tally, active: usize) -> usize {
    let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0);
    match spec.completions {
        Some(completions) => parallelism.min(usize::try_from(completions - tally.succeeded).unwrap_or(0)),
        None if tally.succeeded > 0 => active.min(parallelism),
        None => parallelism,
    }
}

/// Keeps `kept` pods: running before waiting, older before younger.
fn least_valuable(mut active: Vec<&Pod>, kept: usize) -> Vec<String> {
    active.sort_by_key(|pod| (pods::phase(pod) != "Running", !pods::is_ready(pod), pod.creation_timestamp()));
    active.drain(..kept);
    active.into_iter().filter_map(ResourceExt::uid).collect()
}

fn after_the_end<P: AsRef<Pod>>(spec: &JobSpec, status: &JobStatus, pods: &[P], now: Timestamp) -> JobPlan {
    let mut plan = JobPlan { release: ended(pods), discard: uids(pods, pods::is_active), ..JobPlan::default() };
    let ended_at = conditions::active(status, COMPLETE).or(conditions::active(status, FAILED));
    let ended_at = ended_at.and_then(|condition| condition.last_transition_time.as_ref());
    if let (Some(ttl), Some(ended_at)) = (spec.ttl_seconds_after_finished, ended_at) {
        let left = left_of(ended_at.0, i64::from(ttl), now).unwrap_or_default();
        plan.delete_job = left.is_zero();
        plan.next = Some(left).filter(|left| !left.is_zero());
    }
    plan
}

fn ended<P: AsRef<Pod>>(pods: &[P]) -> Vec<String> {
    uids(pods, |pod| is_tracked(pod) && (pods::is_terminal(pod) || pods::is_terminating(pod)))
}

fn uids<P: AsRef<Pod>>(pods: &[P], wanted: fn(&Pod) -> bool) -> Vec<String> {
    pods.iter().map(AsRef::as_ref).filter(|pod| wanted(pod)).filter_map(ResourceExt::uid).collect()
}
