//! How the service of a trial is, by its Deployment and its pods.

use modelway_api::{Reason, labels, names, trial::TrialFailure};
use serde_json::Value;

use super::ended::{Ended, Trouble};
use crate::{context::Context, json as read, pods, world::Kind};

/// Condition by which a process node says how limits hold.
const LIMITS_ENFORCED: &str = "modelway.io/LimitsEnforced";
/// How a process node ends what outlives it.
const PLATFORM_ENDED: &str = "PlatformEnded";
/// A container that ends so often before it was ready will not be.
const CRASHES: i64 = 2;

/// How a service is.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// On its way.
    Starting(Option<Trouble>),
    /// It takes requests.
    Ready(ReadyPod),
    /// It will not start.
    Broken(Ended),
}

/// A pod that takes requests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadyPod {
    pub name: String,
    pub address: String,
    pub node: Option<String>,
    /// By what its limits hold, where it says.
    pub limits: Option<String>,
}

/// The pods of the service that are not on their way out, the newest first.
fn service_pods<'a>(cx: &Context<'a>, trial: &'a Value) -> Vec<&'a Value> {
    let deployment = names::trial_deployment(read::name(trial));
    let pods = cx.world.list(Kind::Pod, read::text(trial, "/metadata/namespace"));
    let own = pods.filter(|pod| {
        read::label(pod, labels::TRIAL_NAME) == Some(read::name(trial))
            && read::label(pod, labels::DEPLOYMENT) == Some(&deployment)
            && !read::is_deleted(pod)
    });
    let mut own: Vec<&Value> = own.collect();
    own.sort_by_key(|pod| std::cmp::Reverse(read::text(pod, "/metadata/creationTimestamp")));
    own
}

/// How the service is before it is put under load.
pub fn starting(cx: &Context, trial: &Value, deployment: Option<&Value>) -> Service {
    let pods = service_pods(cx, trial);
    let ready = pods.iter().find(|pod| read::condition_holds(pod, "Ready"));
    if let Some(pod) = ready.and_then(|pod| ready_pod(pod)) {
        return Service::Ready(pod);
    }
    if let Some(ended) = pods.iter().find_map(|pod| crashed(pod)) {
        return Service::Broken(ended);
    }
    let problem = pods::problem(pods.iter().copied());
    let problem = problem.or_else(|| deployment.and_then(pods::deployment_problem));
    let cannot_start = pods.iter().any(|pod| cannot_start(pod));
    Service::Starting(problem.map(|problem| trouble(problem, cannot_start)))
}

/// Whether the node says that it cannot start a container, in words of its own.
fn cannot_start(pod: &Value) -> bool {
    let waiting =
        read::items(pod, "/status/containerStatuses").map(|status| read::text(status, "/state/waiting/reason"));
    let passing = ["", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"];
    waiting.into_iter().any(|reason| !passing.contains(&reason))
}

fn trouble(problem: pods::Problem, cannot_start: bool) -> Trouble {
    match problem.reason {
        // The same for every candidate.
        None if cannot_start => Trouble::of(Reason::NeedsAttention, problem.message),
        Some(reason) => Trouble::of(reason, problem.message),
        // One crash, or what a probe says: it has until the deadline.
        None => Trouble {
            ended: Ended::new(TrialFailure::StartTimeout, Reason::DeadlineExceeded, problem.message),
            patience: None,
        },
    }
}

fn ready_pod(pod: &Value) -> Option<ReadyPod> {
    let address = read::text(pod, "/status/podIP");
    let limits = read::condition(pod, LIMITS_ENFORCED);
    let text = |pointer: &str| Some(read::text(pod, pointer).to_owned()).filter(|text| !text.is_empty());
    (!address.is_empty()).then(|| ReadyPod {
        name: read::name(pod).to_owned(),
        address: address.to_owned(),
        node: text("/spec/nodeName"),
        limits: limits.map(|limits| format!("{}: {}", read::text(limits, "/reason"), read::text(limits, "/message"))),
    })
}

/// A container that ended more often than a start may need; by memory, once.
fn crashed(pod: &Value) -> Option<Ended> {
    read::items(pod, "/status/containerStatuses").chain(read::items(pod, "/status/initContainerStatuses")).find_map(
        |status| {
            let (end, times) = last_end(status)?;
            let is_memory = end["reason"] == "OOMKilled" || is_memory_limit(end);
            (is_memory || times >= CRASHES).then(|| ended(pod, status, end))
        },
    )
}

/// The last end of a container that was not the platform's doing, and how often it ended.
fn last_end(status: &Value) -> Option<(&Value, i64)> {
    let now = &status["state"]["terminated"];
    let ends = [now, &status["lastState"]["terminated"]];
    let end = ends.into_iter().find(|end| end.is_object() && end["reason"] != PLATFORM_ENDED)?;
    // An init container that has done its work has ended, too.
    let is_done = read::number(end, "/exitCode") == 0 && read::number(status, "/restartCount") == 0;
    (!is_done).then(|| (end, read::number(status, "/restartCount") + i64::from(now.is_object())))
}

/// A process node without memory cgroups limits what a process asks for: it ends by itself then.
fn is_memory_limit(end: &Value) -> bool {
    read::text(end, "/message").contains("RLIMIT_DATA")
}

fn ended(pod: &Value, status: &Value, end: &Value) -> Ended {
    let (container, name) = (read::name_of(status), read::name(pod));
    let said = read::text(end, "/message").trim();
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    if end["reason"] == "OOMKilled" || is_memory_limit(end) {
        let message = format!("pod {name}: container {container} was killed for memory{said}");
        return Ended::new(TrialFailure::OutOfMemory, Reason::OOMKilled, message);
    }
    let code = read::number(end, "/exitCode");
    let message = format!("pod {name}: container {container} ended with exit code {code}{said}");
    Ended::new(TrialFailure::Crash, Reason::ServiceCrashed, message)
}

/// What happened to the pod while it was tested; `None` while it goes on.
pub fn under_load(cx: &Context, trial: &Value, tested: &str) -> Option<Ended> {
    let pods = service_pods(cx, trial);
    let lost = |message: String| Ended::new(TrialFailure::Infrastructure, Reason::ServiceLost, message);
    let Some(pod) = pods.iter().find(|pod| read::name(pod) == tested) else {
        return Some(lost(format!("pod {tested} went away while it was tested")));
    };
    if pod["status"]["reason"] == "Evicted" {
        return Some(Ended::new(
            TrialFailure::Infrastructure,
            Reason::Evicted,
            format!("pod {tested} was evicted: {}", read::text(pod, "/status/message")),
        ));
    }
    let ends = read::items(pod, "/status/containerStatuses");
    for status in ends {
        if let Some((end, _)) = last_end(status) {
            return Some(ended(pod, status, end));
        }
        if read::number(status, "/restartCount") > 0 || status["state"]["terminated"].is_object() {
            return Some(lost(format!("pod {tested} was started again while it was tested")));
        }
    }
    None
}
