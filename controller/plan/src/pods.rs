//! What keeps pods from becoming ready, in one sentence.

use serde_json::Value;

use crate::json as read;

/// Reasons to wait that pass by themselves.
const PASSING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// What keeps one of the pods from becoming ready; `None` while all may still be on their way.
pub fn problem<'a>(pods: impl Iterator<Item = &'a Value>) -> Option<String> {
    let not_ready = pods.filter(|pod| !read::is_deleted(pod) && !read::condition_holds(pod, "Ready"));
    let mut by_age: Vec<&Value> = not_ready.collect();
    by_age.sort_by_key(|pod| std::cmp::Reverse(read::text(pod, "/metadata/creationTimestamp").to_owned()));
    by_age.into_iter().find_map(pod_problem)
}

fn pod_problem(pod: &Value) -> Option<String> {
    let why = containers(pod).find_map(container_problem).or_else(|| status_problem(pod))?;
    let name = read::name(pod);
    Some(format!("pod {name}: {why}; see: modelway logs {name}"))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    read::items(pod, "/status/initContainerStatuses").chain(read::items(pod, "/status/containerStatuses"))
}

fn container_problem(status: &Value) -> Option<String> {
    let name = read::name_of(status);
    let last = [&status["state"]["terminated"], &status["lastState"]["terminated"]]
        .into_iter()
        .find(|end| read::number(end, "/exitCode") != 0 || end["signal"].is_number());
    if let Some(end) = last {
        let said = read::text(end, "/message").trim();
        let (reason, code) = (read::text(end, "/reason"), read::number(end, "/exitCode"));
        let times = read::number(status, "/restartCount");
        let again = if times > 0 { format!(", restarted {times} times") } else { String::new() };
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Some(format!("container {name} ended with exit code {code} ({reason}{again}){said}"));
    }
    waiting_problem(name, status)
}

fn waiting_problem(name: &str, status: &Value) -> Option<String> {
    let waiting = &status["state"]["waiting"];
    let (reason, message) = (read::text(waiting, "/reason"), read::text(waiting, "/message"));
    if reason == "CrashLoopBackOff" {
        let times = read::number(status, "/restartCount");
        return Some(format!(
            "container {name} ends by itself with exit code 0, restarted {times} times: a server must keep running"
        ));
    }
    // A node that cannot go on, for a volume that is missing say, tells it in the message.
    let is_passing = PASSING.contains(&reason) && message.is_empty();
    let told = [reason, message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    (!is_passing).then(|| format!("container {name} waits: {told}"))
}

/// What the pod itself says: failed as a whole, unschedulable, or not ready for a named reason.
fn status_problem(pod: &Value) -> Option<String> {
    let (reason, message) = (read::text(pod, "/status/reason"), read::text(pod, "/status/message"));
    if !reason.is_empty() {
        return Some(format!("{reason}: {message}"));
    }
    let named = ["PodScheduled", "ContainersReady", "Ready"].iter().filter_map(|type_| read::condition(pod, type_));
    named
        .filter(|condition| condition["status"] == "False")
        .map(|condition| (read::text(condition, "/reason"), read::text(condition, "/message")))
        .find(|(reason, _)| !matches!(*reason, "" | "ContainersNotReady" | "ContainersNotInitialized"))
        .map(|(reason, message)| format!("{reason}: {message}"))
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
        assert!(
            problem.contains("exit code 1") && problem.contains("bad magic") && problem.contains("modelway logs p")
        );
    }

    #[test]
    fn a_server_that_ends_well_is_told_to_keep_running() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server", "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting"}},
            "lastState": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}});
        let problem = problem([&pod].into_iter()).unwrap();
        assert!(problem.contains("exit code 0, restarted 2 times: a server must keep running"), "{problem}");
    }

    #[test]
    fn a_missing_volume_is_named() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server",
            "state": {"waiting": {"reason": "ContainerCreating", "message": "volume \"x\": configmap \"c\" not found"}}}]}});
        let problem = problem([&pod].into_iter()).unwrap();
        assert!(problem.contains("waits: ContainerCreating: volume \"x\": configmap \"c\" not found"), "{problem}");
    }

    #[test]
    fn silence_leaves_no_dangling_colon() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "server",
            "state": {"terminated": {"exitCode": 9, "reason": "Error"}}}]}});
        assert_eq!(
            problem([&pod].into_iter()).unwrap(),
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
        assert!(problem([&pod].into_iter()).unwrap().contains("ListensOnAllAddresses: bind $(POD_IP)"));
    }
}
