//! What `kubectl get pods` shows: one word for all that is going on in a pod.

use serde_json::Value;

use super::columns::{age, cell, list, text_or};
use crate::{kinds::PrinterColumn, table::age_cell};

pub(super) fn columns() -> Vec<PrinterColumn> {
    vec![
        cell("Ready", ready),
        cell("Status", status),
        cell("Restarts", restarts),
        age(),
        cell("IP", |pod| text_or(pod, "/status/podIP", "<none>").into()).wide(),
        cell("Node", |pod| text_or(pod, "/spec/nodeName", "<none>").into()).wide(),
        cell("Nominated Node", |pod| text_or(pod, "/status/nominatedNodeName", "<none>").into()).wide(),
        cell("Readiness Gates", readiness_gates).wide(),
    ]
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = list(pod, "/spec/readinessGates");
    let is_met = |gate: &&Value| {
        let mut conditions = list(pod, "/status/conditions").iter();
        conditions.any(|condition| condition["type"] == gate["conditionType"] && condition["status"] == "True")
    };
    if gates.is_empty() {
        "<none>".into()
    } else {
        format!("{}/{}", gates.iter().filter(is_met).count(), gates.len()).into()
    }
}

/// Init containers that keep running count as containers of the pod.
fn is_sidecar(pod: &Value, name: &Value) -> bool {
    list(pod, "/spec/initContainers")
        .iter()
        .any(|container| &container["name"] == name && container["restartPolicy"] == "Always")
}

fn sidecar_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/status/initContainerStatuses").iter().filter(|status| is_sidecar(pod, &status["name"]))
}

fn ready(pod: &Value) -> Value {
    let sidecars = sidecar_statuses(pod).count();
    let running = |status: &&Value| status["ready"] == true && status["state"]["running"].is_object();
    let statuses = list(pod, "/status/containerStatuses").iter();
    let ready = statuses.filter(running).count() + sidecar_statuses(pod).filter(running).count();
    format!("{ready}/{}", list(pod, "/spec/containers").len() + sidecars).into()
}

fn status(pod: &Value) -> Value {
    let mut word = text_or(pod, "/status/reason", text_or(pod, "/status/phase", "")).to_owned();
    let gated = |condition: &Value| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated";
    if list(pod, "/status/conditions").iter().any(gated) {
        "SchedulingGated".clone_into(&mut word);
    }
    match initializing(pod) {
        Some(initializing) => word = initializing,
        None => word = running_word(pod, word),
    }
    if pod["metadata"]["deletionTimestamp"].is_string() && !matches!(word.as_str(), "Succeeded" | "Failed") {
        let lost = text_or(pod, "/status/reason", "") == "NodeLost";
        return if lost { "Unknown" } else { "Terminating" }.into();
    }
    word.into()
}

/// `Init:...` for the first init container that is neither done nor a started sidecar.
fn initializing(pod: &Value) -> Option<String> {
    let statuses = list(pod, "/status/initContainerStatuses");
    let finished = |status: &Value| {
        status["state"]["terminated"]["exitCode"] == 0
            || (is_sidecar(pod, &status["name"]) && status["started"] == true)
    };
    let index = statuses.iter().position(|status| !finished(status))?;
    let state = &statuses[index]["state"];
    if state["terminated"].is_object() {
        return Some(format!("Init:{}", ended(&state["terminated"])));
    }
    match text_or(state, "/waiting/reason", "") {
        "" | "PodInitializing" => Some(format!("Init:{index}/{}", list(pod, "/spec/initContainers").len())),
        reason => Some(format!("Init:{reason}")),
    }
}

/// Why a container ended: its reason, else its signal or exit code.
fn ended(terminated: &Value) -> String {
    let reason = text_or(terminated, "/reason", "");
    let signal = terminated["signal"].as_i64().unwrap_or(0);
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The reason of the first container that waits or ended, else the pod's own word.
fn running_word(pod: &Value, own: String) -> String {
    let statuses = list(pod, "/status/containerStatuses");
    let mut word = own;
    let mut any_running = false;
    for status in statuses.iter().rev() {
        let state = &status["state"];
        match text_or(state, "/waiting/reason", "") {
            "" if state["terminated"].is_object() => word = ended(&state["terminated"]),
            "" => any_running |= status["ready"] == true && state["running"].is_object(),
            reason => reason.clone_into(&mut word),
        }
    }
    if word == "Completed" && any_running {
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let ready = list(pod, "/status/conditions").iter().any(is_ready);
        return if ready { "Running" } else { "NotReady" }.to_owned();
    }
    word
}

fn restarts(pod: &Value) -> Value {
    let statuses = || list(pod, "/status/containerStatuses").iter().chain(sidecar_statuses(pod));
    let count: i64 = statuses().filter_map(|status| status["restartCount"].as_i64()).sum();
    // RFC 3339 in UTC sorts as text.
    let last = statuses().filter_map(|status| status["lastState"]["terminated"]["finishedAt"].as_str()).max();
    match last {
        Some(time) if count > 0 => age_cell(&format!("{count} ("), &time.into(), " ago)"),
        _ => count.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}, {"name": "d"}],
               "initContainers": [{"name": "i"}]}, "status": status})
    }

    #[test]
    fn one_word_says_what_goes_on() {
        let cases = [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "Init:0/1",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "Init:CrashLoopBackOff",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "c", "ready": false, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                "ImagePullBackOff",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"exitCode": 3}}}]}),
                "ExitCode:3",
            ),
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"name": "d", "ready": true, "state": {"running": {}}}]}),
                "Running",
            ),
        ];
        for (given, word) in cases {
            assert_eq!(status(&pod(&given)), word);
        }
    }

    #[test]
    fn a_deleted_pod_is_terminating() {
        let mut deleted = pod(&json!({"phase": "Running"}));
        deleted["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
        assert_eq!(status(&deleted), "Terminating");
    }

    #[test]
    fn restarts_say_when_the_last_was() {
        let status = |count: i64| {
            pod(&json!({"containerStatuses": [{"name": "c", "restartCount": count, "ready": true,
                "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2030-01-01T00:00:00Z"}}}]}))
        };
        assert_eq!(restarts(&status(0)), "0");
        assert_eq!(restarts(&status(2))["before"], "2 (");
        assert_eq!(ready(&status(2)), "1/2");
    }
}
