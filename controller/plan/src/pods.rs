//! What keeps pods from becoming ready, in one sentence.

use modelway_api::Reason;
use serde_json::Value;

use crate::{json as read, refusal};

/// Reasons to wait that pass by themselves.
const PASSING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// Reasons to wait for an image.
const IMAGE: [&str; 5] =
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"];

/// What is wrong with a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// `None` when no reason of its own fits.
    pub reason: Option<Reason>,
    pub message: String,
}

impl Problem {
    fn new(reason: impl Into<Option<Reason>>, message: String) -> Self {
        Self { reason: reason.into(), message }
    }
}

/// What keeps one of the pods from becoming ready; `None` while all may still be on their way.
pub fn problem<'a>(pods: impl Iterator<Item = &'a Value>) -> Option<Problem> {
    let not_ready = pods.filter(|pod| !read::is_deleted(pod) && !read::condition_holds(pod, "Ready"));
    let mut by_age: Vec<&Value> = not_ready.collect();
    by_age.sort_by_key(|pod| std::cmp::Reverse(read::text(pod, "/metadata/creationTimestamp").to_owned()));
    by_age.into_iter().find_map(pod_problem)
}

fn pod_problem(pod: &Value) -> Option<Problem> {
    // What was done to the pod as a whole explains its containers' ends.
    let why = eviction(pod).or_else(|| containers(pod).find_map(container_problem)).or_else(|| status_problem(pod))?;
    let name = read::name(pod);
    // A pod that never ran has no logs, and those of an evicted one are gone.
    let logs = match why.reason {
        Some(
            Reason::Unschedulable | Reason::ImagePullBackOff | Reason::CreateContainerConfigError | Reason::Evicted,
        ) => String::new(),
        _ => format!("; see: modelway logs {name}"),
    };
    Some(Problem { message: format!("pod {name}: {}{logs}", why.message), ..why })
}

fn eviction(pod: &Value) -> Option<Problem> {
    let message = read::text(pod, "/status/message");
    (pod["status"]["reason"] == "Evicted").then(|| Problem::new(Reason::Evicted, format!("Evicted: {message}")))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    read::items(pod, "/status/initContainerStatuses").chain(read::items(pod, "/status/containerStatuses"))
}

fn container_problem(status: &Value) -> Option<Problem> {
    let name = read::name_of(status);
    let last = [&status["state"]["terminated"], &status["lastState"]["terminated"]]
        .into_iter()
        .find(|end| read::number(end, "/exitCode") != 0 || end["signal"].is_number())
        // The machine was switched off, so to speak: it starts again.
        .filter(|end| end["reason"] != "PlatformEnded");
    let Some(end) = last else { return waiting_problem(name, status) };
    let said = read::text(end, "/message").trim();
    let (reason, code) = (read::text(end, "/reason"), read::number(end, "/exitCode"));
    let times = read::number(status, "/restartCount");
    let again = if times > 0 { format!(", restarted {times} times") } else { String::new() };
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    if reason == "OOMKilled" {
        let message = format!(
            "container {name} was killed for memory (OOMKilled{again}): raise resources.limits.memory, or give it less \
             to hold{said}"
        );
        return Some(Problem::new(Reason::OOMKilled, message));
    }
    let message = format!("container {name} ended with exit code {code} ({reason}{again}){said}");
    let is_looping = status["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    Some(Problem::new(is_looping.then_some(Reason::CrashLoopBackOff), message))
}

fn waiting_problem(name: &str, status: &Value) -> Option<Problem> {
    let waiting = &status["state"]["waiting"];
    let (reason, message) = (read::text(waiting, "/reason"), read::text(waiting, "/message"));
    if reason == "CrashLoopBackOff" {
        let times = read::number(status, "/restartCount");
        let message = format!(
            "container {name} ends by itself with exit code 0, restarted {times} times: a server must keep running"
        );
        return Some(Problem::new(Reason::CrashLoopBackOff, message));
    }
    // A node that cannot go on, for a volume that is missing say, tells it in the message.
    let is_passing = PASSING.contains(&reason) && message.is_empty();
    let told = [reason, message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    let kind = match reason {
        "CreateContainerConfigError" | "ContainerCreating" => Some(Reason::CreateContainerConfigError),
        reason if IMAGE.contains(&reason) => Some(Reason::ImagePullBackOff),
        _ => None,
    };
    (!is_passing).then(|| Problem::new(kind, format!("container {name} waits: {told}")))
}

/// What the pod itself says: failed as a whole, unschedulable, or not ready for a named reason.
fn status_problem(pod: &Value) -> Option<Problem> {
    let (reason, message) = (read::text(pod, "/status/reason"), read::text(pod, "/status/message"));
    if !reason.is_empty() {
        return Some(Problem::new(None, format!("{reason}: {message}")));
    }
    let named = ["PodScheduled", "ContainersReady", "Ready"].iter().filter_map(|type_| read::condition(pod, type_));
    named
        .filter(|condition| condition["status"] == "False")
        .map(|condition| (read::text(condition, "/reason"), read::text(condition, "/message")))
        .find(|(reason, _)| !matches!(*reason, "" | "ContainersNotReady" | "ContainersNotInitialized"))
        .map(|(reason, message)| {
            let kind = (reason == "Unschedulable").then_some(Reason::Unschedulable);
            Problem::new(kind, format!("{reason}: {message}"))
        })
}

/// What keeps a Deployment from making its pods, or from getting on with them.
pub fn deployment_problem(deployment: &Value) -> Option<Problem> {
    let told = ["ReplicaFailure", "Progressing"].iter().filter_map(|type_| read::condition(deployment, type_));
    told.filter(|condition| {
        let is_failure = condition["type"] == "ReplicaFailure";
        condition["status"] == if is_failure { "True" } else { "False" }
    })
    .map(|condition| {
        let (word, message) = (read::text(condition, "/reason"), read::text(condition, "/message"));
        let reason = Some(refusal::reason(message)).filter(|reason| *reason != Reason::ChildRejected);
        let advice = reason.map_or("", refusal::advice);
        Problem { reason, message: format!("{word}: {message}{advice}") }
    })
    .next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crash_names_exit_code_and_last_words() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server", "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "model.onnx: bad magic\n"}}}]}});
        let problem = problem([&pod].into_iter()).unwrap();
        assert_eq!(problem.reason, Some(Reason::CrashLoopBackOff));
        let message = problem.message;
        assert!(
            message.contains("exit code 1") && message.contains("bad magic") && message.contains("modelway logs p")
        );
    }

    #[test]
    fn a_server_that_ends_well_is_told_to_keep_running() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server", "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting"}},
            "lastState": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}});
        let problem = problem([&pod].into_iter()).unwrap();
        let problem = problem.message;
        assert!(problem.contains("exit code 0, restarted 2 times: a server must keep running"), "{problem}");
    }

    #[test]
    fn a_missing_volume_is_named() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server",
            "state": {"waiting": {"reason": "ContainerCreating", "message": "volume \"x\": configmap \"c\" not found"}}}]}});
        let problem = problem([&pod].into_iter()).unwrap();
        let problem = problem.message;
        assert!(problem.contains("waits: ContainerCreating: volume \"x\": configmap \"c\" not found"), "{problem}");
    }

    #[test]
    fn a_container_that_ended_with_its_platform_starts_again_without_a_problem() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server", "restartCount": 1,
            "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137, "reason": "PlatformEnded"}}}]}});
        assert_eq!(problem([&pod].into_iter()), None);
    }

    #[test]
    fn silence_leaves_no_dangling_colon() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server",
            "state": {"terminated": {"exitCode": 9, "reason": "Error"}}}]}});
        assert_eq!(
            problem([&pod].into_iter()).unwrap().message,
            "pod p: container server ended with exit code 9 (Error); see: modelway logs p"
        );
    }

    #[test]
    fn ready_and_starting_pods_are_no_problem() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"lastState": {"terminated": {"exitCode": 1}}}]}});
        let starting = json!({"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}});
        assert_eq!(problem([&ready, &starting].into_iter()), None);
    }

    #[test]
    fn the_nodes_own_reasons_are_told() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "False",
            "reason": "ListensOnAllAddresses", "message": "bind $(POD_IP)"}]}});
        assert!(problem([&pod].into_iter()).unwrap().message.contains("ListensOnAllAddresses: bind $(POD_IP)"));
    }

    #[test]
    fn what_kubelet_and_scheduler_say_has_its_reason() {
        let container = |status: Value| json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}});
        let oom = json!({"name": "s", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        let pull = json!({"name": "s", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}});
        let unschedulable = json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}});
        let evicted = json!({"metadata": {"name": "p"}, "status": {"phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": [{"name": "s", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}]}});
        for (pod, expected) in [
            (container(oom), Reason::OOMKilled),
            (container(pull), Reason::ImagePullBackOff),
            (unschedulable, Reason::Unschedulable),
            (evicted, Reason::Evicted),
        ] {
            assert_eq!(problem([&pod].into_iter()).and_then(|problem| problem.reason), Some(expected), "{pod}");
        }
    }
}
