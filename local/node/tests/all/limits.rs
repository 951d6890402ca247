//! CPU and memory limits, by each means that this machine has. What it lacks is skipped, with the reason printed.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use modelway_node::{LIMITS_ENFORCED, LimitMeans};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::crash::{shim_of, signal, start_platform};
use crate::platform::{Platform, condition, container, ended, is_alive, pid_in, sh, wait_until, waiting};

/// Both kinds of control groups; a machine has one of them, as a rule.
const GROUPS: [(LimitMeans, &str); 2] = [(LimitMeans::CgroupV1, "CgroupV1"), (LimitMeans::CgroupV2, "CgroupV2")];

fn limited(script: &str, resources: &Value) -> Value {
    let container = json!({"name": "a", "image": "x", "command": sh(script), "resources": resources});
    json!({"restartPolicy": "Never", "containers": [container]})
}

async fn start(means: LimitMeans) -> Platform {
    Platform::start_with(|options| options.limits = means).await
}

/// The reason and the message of the condition, once it is there.
async fn enforced(platform: &Platform, pod: &str) -> (Pod, String, String) {
    let pod = platform.wait(pod, "told of its limits", |pod| condition(pod, LIMITS_ENFORCED).is_some()).await;
    let told = condition(&pod, LIMITS_ENFORCED).unwrap();
    (pod, told.reason.unwrap(), told.message.unwrap())
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Whether the means that was forced is there; says so where it is not.
fn offered(reason: &str, wanted: &str) -> bool {
    if reason != wanted {
        skip(&format!("limits are by {reason} here, {wanted} does not work"));
    }
    reason == wanted
}

/// The groups of a container that are there now; the platform keeps a record of where it makes them.
fn groups(data: &Path, pod: &Pod) -> Vec<PathBuf> {
    let record = std::fs::read_to_string(data.join("cgroups")).unwrap_or_default();
    let below = format!("pod-{}/a", pod.metadata.uid.as_deref().unwrap());
    record.lines().map(|base| Path::new(base).join(&below)).filter(|folder| folder.exists()).collect()
}

/// The value of a line `NAME VALUE` in one of the files.
fn counter(groups: &[PathBuf], file: &str, name: &str) -> u64 {
    let read = |folder: &PathBuf| std::fs::read_to_string(folder.join(file)).ok();
    let text: String = groups.iter().filter_map(read).collect();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_quota_holds_back_a_container_and_its_children() {
    for (means, wanted) in GROUPS {
        let platform = start(means).await;
        let (own, child) = (platform.data.join("own"), platform.data.join("child"));
        let script = format!(
            "echo $$ > {}; sh -c 'echo $$ > {}; while :; do :; done' & while :; do :; done",
            own.display(),
            child.display()
        );
        platform.create("hog", limited(&script, &json!({"limits": {"cpu": "200m"}}))).await;
        let (pod, reason, message) = enforced(&platform, "hog").await;
        if offered(&reason, wanted) {
            assert!(message.starts_with("a: cpu 200m by cgroup v"), "{message}");
            let groups = groups(&platform.data, &pod);
            wait_until("the hog is throttled", async || counter(&groups, "cpu.stat", "nr_throttled ") > 0).await;
            for file in [&own, &child] {
                let membership = std::fs::read_to_string(format!("/proc/{}/cgroup", pid_in(file).await)).unwrap();
                assert!(membership.contains(&format!("/pod-{}/a\n", pod.metadata.uid.as_deref().unwrap())));
            }
            platform.delete("hog").await;
            platform.wait_gone("hog").await;
            wait_until("its groups are gone", async || groups.iter().all(|group| !group.exists())).await;
        }
        platform.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_beyond_its_memory_is_killed_and_told_from_other_kills() {
    for (means, wanted) in GROUPS {
        let platform = start(means).await;
        let limits = json!({"limits": {"memory": "32Mi"}});
        platform.create("hog", limited("exec tail /dev/zero", &limits)).await;
        let (_, reason, message) = enforced(&platform, "hog").await;
        if offered(&reason, wanted) {
            assert!(message.starts_with("a: memory 32Mi by cgroup v"), "{message}");
            let hog = ended(&platform.wait_phase("hog", "Failed").await, 0);
            assert_eq!((hog.exit_code, hog.signal, hog.reason.as_deref()), (137, Some(9), Some("OOMKilled")));
            platform.create("worker", limited("tail /dev/zero; exit 3", &limits)).await;
            let worker = ended(&platform.wait_phase("worker", "Failed").await, 0);
            assert_eq!((worker.exit_code == 0, worker.reason.as_deref()), (false, Some("OOMKilled")));
            platform.create("other", limited("kill -9 $$", &limits)).await;
            let other = ended(&platform.wait_phase("other", "Failed").await, 0);
            assert_eq!((other.exit_code, other.reason.as_deref()), (137, Some("Error")));
        }
        platform.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_weigh_where_groups_are_used() {
    for (means, wanted) in GROUPS {
        let platform = start(means).await;
        let resources = json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m"}});
        platform.create("light", limited("exec sleep 1000", &resources)).await;
        let (pod, reason, _) = enforced(&platform, "light").await;
        if offered(&reason, wanted) {
            let file = |name: &str| {
                let read = |folder: &PathBuf| std::fs::read_to_string(folder.join(name)).ok();
                groups(&platform.data, &pod).iter().find_map(read).unwrap_or_default()
            };
            let weight = if means == LimitMeans::CgroupV1 { file("cpu.shares") } else { file("cpu.weight") };
            assert_eq!(weight.trim(), if means == LimitMeans::CgroupV1 { "512" } else { "20" });
        }
        platform.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_go_with_the_platform_and_after_its_kill_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let started = data.join("started");
    let script = format!("echo $$ > {}; exec sleep 1000", started.display());
    let platform = Platform::start_on(data, |options| "elsewhere".clone_into(&mut options.name)).await;
    let mut spec = limited(&script, &json!({"limits": {"memory": "1Gi"}}));
    spec["nodeName"] = json!("local");
    let pod = platform.create("left", spec).await;
    platform.stop().await;

    let mut killed = start_platform(data);
    pid_in(&started).await;
    killed.kill();
    let left = groups(data, &pod);
    if left.is_empty() {
        return skip("no control groups here");
    }
    let platform = Platform::start_on(data, |_| {}).await;
    platform.wait_phase("left", "Failed").await;
    wait_until("the groups of the earlier life are gone", async || left.iter().all(|group| !group.exists())).await;
    platform.stop().await;
    let base = |group: &PathBuf| group.parent().unwrap().parent().unwrap().to_owned();
    assert!(left.iter().map(base).all(|base| !base.exists()), "groups outlive the platform: {left:?}");
}

/// A container with a daemon that carries no mark; files for the process ids of both.
fn shedding(folder: &Path) -> (Value, PathBuf, PathBuf) {
    let (main, daemon) = (folder.join("main"), folder.join("daemon"));
    let script = format!(
        "setsid env -i sh -c 'echo $$ > {}; exec sleep 1000' & while [ ! -s {} ]; do sleep 0.05; done; echo $$ > {}; sleep 1000",
        daemon.display(),
        daemon.display(),
        main.display()
    );
    (limited(&script, &json!({"limits": {"memory": "1Gi"}})), main, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_shed_its_mark_goes_with_its_container() {
    let platform = Platform::start().await;
    let (spec, main, daemon) = shedding(&platform.data);
    let pod = platform.create("shed", spec).await;
    let (main, daemon) = (pid_in(&main).await, pid_in(&daemon).await);
    let has_groups = !groups(&platform.data, &pod).is_empty();
    signal(shim_of(main), Signal::KILL);
    platform.wait_phase("shed", "Failed").await;
    if has_groups {
        assert!(!is_alive(daemon));
    } else {
        skip("no control groups here");
        signal(daemon, Signal::KILL);
    }
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_shed_its_mark_is_swept_when_all_above_it_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_owned();
    let platform = Platform::start_on(&data, |options| "elsewhere".clone_into(&mut options.name)).await;
    let (mut spec, main, daemon) = shedding(&data);
    spec["nodeName"] = json!("local");
    let pod = platform.create("shed", spec).await;
    platform.stop().await;
    let mut killed = start_platform(&data);
    let (main, daemon) = (pid_in(&main).await, pid_in(&daemon).await);
    let left = groups(&data, &pod);
    // Neither sees the other go.
    let shim = shim_of(main);
    signal(shim, Signal::STOP);
    killed.kill();
    signal(shim, Signal::KILL);
    wait_until("the shim is gone", async || !is_alive(shim)).await;
    assert!(is_alive(daemon));
    let swept = tokio::task::spawn_blocking(move || modelway_node::sweep(&data)).await.unwrap().unwrap();
    if left.is_empty() {
        skip("no control groups here");
        return signal(daemon, Signal::KILL);
    }
    assert!(swept >= 1 && !is_alive(daemon), "{swept}");
    assert!(left.iter().all(|group| !group.exists()), "groups are left: {left:?}");
}

/// The value after `name` in a file of `/proc`.
fn proc_value(pid: i32, file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_control_groups_a_limit_is_whole_cores_and_private_memory() {
    let platform = start(LimitMeans::Affinity).await;
    let mut cores = Vec::new();
    for name in ["one", "two"] {
        let (own, child) = (platform.data.join(name), platform.data.join(format!("{name}-child")));
        let script =
            format!("echo $$ > {}; sh -c 'echo $$ > {}; exec sleep 1000'; exit", own.display(), child.display());
        platform.create(name, limited(&script, &json!({"limits": {"cpu": "200m", "memory": "64Mi"}}))).await;
        let (_, reason, message) = enforced(&platform, name).await;
        assert_eq!(reason, "Affinity");
        let (own, child) = (pid_in(&own).await, pid_in(&child).await);
        let allowed = proc_value(own, "status", "Cpus_allowed_list:");
        assert_eq!(
            message,
            format!("a: cpu 200m as 1 whole core ({allowed}), memory 64Mi for each process by RLIMIT_DATA")
        );
        assert_eq!(proc_value(child, "status", "Cpus_allowed_list:"), allowed);
        let bytes = (64 << 20).to_string();
        let limits = proc_value(child, "limits", "Max data size");
        assert_eq!(limits.split_whitespace().take(2).collect::<Vec<_>>(), [&bytes, &bytes]);
        cores.push(allowed);
    }
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_ne!(cores[0], cores[1], "pods share a core while there are others");
    }
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_must_not_disturb_each_other_share_no_core_where_there_are_two() {
    let platform = Platform::start().await;
    let mut cores = Vec::new();
    for word in ["last", "all-but-last"] {
        let file = platform.data.join(word);
        let annotations = json!({"modelway.io/run-as-process": "true", "modelway.io/cores": word});
        let script = format!("echo $$ > {}; exec sleep 1000", file.display());
        let spec = limited(&script, &json!({"limits": {"cpu": "200m"}}));
        platform.create_with(word, spec, json!({"annotations": annotations})).await;
        let (_, _, message) = enforced(&platform, word).await;
        let allowed = proc_value(pid_in(&file).await, "status", "Cpus_allowed_list:");
        assert!(message.ends_with(&format!("({word})")), "{message}");
        cores.push(allowed);
    }
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_ne!(cores[0], cores[1]);
        assert!(cores[0].parse::<usize>().is_ok(), "the last core alone: {cores:?}");
    }
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_beyond_a_process_limit_fails_and_the_limit_is_named() {
    let platform = start(LimitMeans::Affinity).await;
    let mut spec = limited("exec tail /dev/zero", &json!({"limits": {"memory": "32Mi"}}));
    spec["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    platform.create("hog", spec).await;
    let hog = ended(&platform.wait_phase("hog", "Failed").await, 0);
    assert_eq!(hog.reason.as_deref(), Some("Error"));
    let message = hog.message.unwrap();
    assert!(message.contains("memory 32Mi for each process by RLIMIT_DATA"), "{message}");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_do_not_hold_are_told_and_free_pods_hear_nothing() {
    let platform = start(LimitMeans::Off).await;
    platform.create("bound", limited("true", &json!({"limits": {"cpu": "1"}}))).await;
    platform.create("free", limited("true", &json!({"requests": {"cpu": "100m"}}))).await;
    let bound = platform.wait_phase("bound", "Succeeded").await;
    let told = condition(&bound, LIMITS_ENFORCED).unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_deref()), ("False", Some("None")));
    assert_eq!(told.message.as_deref(), Some("a: cpu 1 not enforced"));
    let free = platform.wait_phase("free", "Succeeded").await;
    assert_eq!(condition(&free, LIMITS_ENFORCED), None);
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_restarts_keeps_its_limits_and_writes_them_once() {
    let platform = Platform::start().await;
    let container_spec =
        json!({"name": "a", "image": "x", "command": sh("exit 1"), "resources": {"limits": {"memory": "1Gi"}}});
    platform.create("loop", json!({"containers": [container_spec]})).await;
    let (first, ..) = enforced(&platform, "loop").await;
    let is_back =
        |pod: &Pod| container(pod, 0).is_some_and(|status| status.restart_count >= 2) && waiting(pod).is_some();
    let later = platform.wait("loop", "restarted twice", is_back).await;
    assert_eq!(condition(&first, LIMITS_ENFORCED), condition(&later, LIMITS_ENFORCED));
    platform.stop().await;
}
