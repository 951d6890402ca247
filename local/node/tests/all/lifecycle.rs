//! Starting, ending, restarting, stopping.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use serde_json::json;

use crate::platform::{
    Platform, condition, container, ended, is_alive, is_ready, phase, pid_in, sh, wait_until, waiting,
};

#[tokio::test(flavor = "multi_thread")]
async fn registers_the_node_and_runs_a_pod_to_its_end() {
    let platform = Platform::start().await;
    platform.create("ok", json!({"restartPolicy": "Never", "containers": [
        {"name": "a", "image": "x", "command": sh("echo out; echo err >&2; printf tail; exit 0"), "resources": {"limits": {"cpu": "1"}}},
        {"name": "b", "image": "x", "command": ["sh"], "args": ["-c", "echo hi"]}
    ]})).await;
    let pod = platform.wait_phase("ok", "Succeeded").await;
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("local"));
    assert_eq!((ended(&pod, 0).exit_code, ended(&pod, 0).reason.as_deref()), (0, Some("Completed")));
    assert_eq!(condition(&pod, "Ready").unwrap().reason.as_deref(), Some("PodCompleted"));
    assert_eq!(condition(&pod, modelway_node::LIMITS_ENFORCED).unwrap().status, "True");
    let mut lines: Vec<String> = platform
        .logs(&pod, |request| request.container = Some("a".into()))
        .await
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["err", "out", "tail"]);
    assert!(platform.logs(&pod, |_| {}).await.unwrap_err().contains("[a b]"));
    platform.wait_event("ok", "Started").await;
    let node = Api::<Node>::all(platform.client.clone()).get("local").await.unwrap();
    let status = node.status.unwrap();
    assert!(
        status.conditions.unwrap().iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    );
    assert!(status.allocatable.unwrap().contains_key("cpu"));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_exit_codes_signals_and_messages() {
    let platform = Platform::start().await;
    let never = |command: serde_json::Value, extra: serde_json::Value| {
        let mut container = json!({"name": "a", "image": "x", "command": command});
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"restartPolicy": "Never", "containers": [container]})
    };
    platform.create("code", never(sh("echo why > /dev/termination-log; exit 7"), json!({}))).await;
    platform.create("signal", never(sh("kill -9 $$"), json!({}))).await;
    platform.create("missing", never(json!(["/no/such/program"]), json!({}))).await;
    let fallback = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    platform.create("logs", never(sh("echo last words; exit 1"), fallback)).await;
    let path = json!({"terminationMessagePath": "/my/message"});
    platform
        .create(
            "path",
            never(sh("echo here > /my/message; test -n \"$MODELWAY_TERMINATION_LOG\" || exit 9; exit 1"), path),
        )
        .await;

    let code = ended(&platform.wait_phase("code", "Failed").await, 0);
    assert_eq!((code.exit_code, code.reason.as_deref(), code.message.as_deref()), (7, Some("Error"), Some("why\n")));
    let signal = ended(&platform.wait_phase("signal", "Failed").await, 0);
    assert_eq!((signal.exit_code, signal.signal), (137, Some(9)));
    let missing = ended(&platform.wait_phase("missing", "Failed").await, 0);
    assert_eq!((missing.exit_code, missing.reason.as_deref()), (128, Some("StartError")));
    assert!(missing.message.unwrap().contains("/no/such/program"));
    let logs = ended(&platform.wait_phase("logs", "Failed").await, 0);
    assert_eq!(logs.message.as_deref(), Some("last words"));
    let path = ended(&platform.wait_phase("path", "Failed").await, 0);
    assert_eq!((path.exit_code, path.message.as_deref()), (1, Some("here\n")));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_with_backoff_and_keeps_the_previous_log() {
    let platform = Platform::start().await;
    platform
        .create("loop", json!({"containers": [{"name": "a", "image": "x", "command": sh("echo run; exit 3")}]}))
        .await;
    let pod = platform
        .wait("loop", "in back-off", |pod| waiting(pod).is_some_and(|(reason, _)| reason == "CrashLoopBackOff"))
        .await;
    let status = container(&pod, 0).unwrap();
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
    let pod =
        platform.wait("loop", "restarted twice", |pod| container(pod, 0).is_some_and(|c| c.restart_count >= 2)).await;
    assert_eq!(phase(&pod), "Running");
    assert_eq!(platform.logs(&pod, |request| request.previous = true).await.unwrap(), "run\n");
    platform.wait_event("loop", "BackOff").await;
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_init_containers_first_and_sidecars_beside() {
    let platform = Platform::start().await;
    platform.create("init", json!({"restartPolicy": "OnFailure",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [
            {"name": "i", "image": "x", "command": sh("test -e /v/tried && echo 1 > /v/order; touch /v/tried; test -e /v/order"),
             "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            {"name": "s", "image": "x", "restartPolicy": "Always", "command": sh("echo side >> /v/order; exec sleep 1000"),
             "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        ],
        "containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "command": sh("until grep -q side /v/order; do sleep 0.02; done; cat /v/order")}]
    })).await;
    let pod = platform.wait_phase("init", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |request| request.container = Some("a".into())).await.unwrap(), "1\nside\n");
    let init = &pod.status.unwrap().init_container_statuses.unwrap()[0];
    assert_eq!((init.restart_count, init.ready), (1, true));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_gracefully_and_kills_after_the_grace_period() {
    let platform = Platform::start().await;
    let spec = |script: &str, grace: u64| json!({"terminationGracePeriodSeconds": grace, "containers": [{"name": "a", "image": "x", "command": sh(script)}]});
    let note = platform.data.join("polite");
    let polite =
        format!("trap 'echo bye > {}; exit 0' TERM; touch ready; while :; do sleep 0.05; done", note.display());
    platform.create("polite", spec(&polite, 20)).await;
    let stubborn_pid = platform.data.join("stubborn");
    let stubborn = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.05; done", stubborn_pid.display());
    platform.create("stubborn", spec(&stubborn, 1)).await;
    let pid = pid_in(&stubborn_pid).await;
    let pod = platform.wait("polite", "ready", is_ready).await;
    let home = platform.data.join("pods").join(pod.metadata.uid.as_deref().unwrap());
    wait_until("the trap is set", async || home.join("home/ready").exists()).await;
    platform.delete("polite").await;
    platform.delete("stubborn").await;
    platform.wait_gone("polite").await;
    platform.wait_gone("stubborn").await;
    assert_eq!(std::fs::read_to_string(note).unwrap(), "bye\n");
    assert!(!is_alive(pid));
    wait_until("the folder of the pod is gone", async || !home.exists()).await;
    let logs = platform.data.join("logs/default");
    wait_until("the logs are gone", async || std::fs::read_dir(&logs).unwrap().count() == 0).await;
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_no_grandchild_and_no_daemon_behind() {
    let platform = Platform::start().await;
    let (child, daemon) = (platform.data.join("child"), platform.data.join("daemon"));
    let script = format!(
        "sleep 1000 & echo $! > {}; setsid sh -c 'echo $$ > {}; exec sleep 1000' >/dev/null 2>&1 </dev/null & while [ ! -s {} ]; do sleep 0.02; done",
        child.display(),
        daemon.display(),
        daemon.display()
    );
    platform
        .create(
            "family",
            json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": sh(&script)}]}),
        )
        .await;
    platform.wait_phase("family", "Succeeded").await;
    for file in [child, daemon] {
        assert!(!is_alive(pid_in(&file).await), "{}", file.display());
    }
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fails_at_the_deadline() {
    let platform = Platform::start().await;
    platform
        .create(
            "late",
            json!({"restartPolicy": "Never", "activeDeadlineSeconds": 1,
        "containers": [{"name": "a", "image": "x", "command": ["sleep", "1000"]}]}),
        )
        .await;
    let pod = platform.wait_phase("late", "Failed").await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_log_until_the_container_ends() {
    let platform = Platform::start().await;
    let go = platform.data.join("go");
    let script = format!("echo one; echo two; while [ ! -e {} ]; do sleep 0.02; done; echo three", go.display());
    platform
        .create(
            "talk",
            json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": sh(&script)}]}),
        )
        .await;
    let pod = platform.wait("talk", "running", |pod| phase(pod) == "Running").await;
    wait_until("two lines are written", async || platform.logs(&pod, |_| {}).await.unwrap().ends_with("two\n")).await;
    let follow = platform.logs(&pod, |request| {
        request.follow = true;
        request.tail_lines = Some(1);
    });
    let release = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::fs::write(&go, "").unwrap();
    };
    let (log, ()) = tokio::join!(follow, release);
    assert_eq!(log.unwrap(), "two\nthree\n");
    let stamped = platform.logs(&pod, |request| request.timestamps = true).await.unwrap();
    let first = stamped.lines().next().unwrap();
    assert!(first.split(' ').next().unwrap().parse::<k8s_openapi::jiff::Timestamp>().is_ok(), "{first}");
    let limited = platform.logs(&pod, |request| request.limit_bytes = Some(5)).await.unwrap();
    assert_eq!(limited, "one\nt");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn says_what_to_do_about_foreign_images() {
    let platform = Platform::start().await;
    let spec = json!({"containers": [{"name": "a", "image": "python:3", "command": ["true"]}]});
    platform.create_with("foreign", spec, json!({"annotations": {}})).await;
    let pod = platform
        .wait("foreign", "refused", |pod| waiting(pod).is_some_and(|(reason, _)| reason == "NeedsContainers"))
        .await;
    assert!(waiting(&pod).unwrap().1.contains("modelway.io/run-as-process"));
    platform.wait_event("foreign", "NeedsContainers").await;
    platform.delete("foreign").await;
    platform.wait_gone("foreign").await;
    platform.stop().await;
}
