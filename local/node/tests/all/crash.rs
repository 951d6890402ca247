//! What is left after kill -9, and how the next life goes on.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::platform::{Platform, condition, container, is_alive, is_ready, phase, pid_in, sh, wait_until};
use crate::roles::command;

/// A platform in a process of its own; a test that fails must not leave it behind.
pub struct PlatformProcess(Child);

impl PlatformProcess {
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for PlatformProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn start_platform(data: &Path) -> PlatformProcess {
    let line: Vec<String> = serde_json::from_value(command("platform")).unwrap();
    let child =
        Command::new(&line[0]).args(&line[1..]).env("DATA", data).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    PlatformProcess(child.unwrap())
}

/// Puts pods into the store before the platform that runs them starts.
async fn seed(data: &Path, pods: &[(&str, Value, Value)]) {
    let platform = Platform::start_on(data, |options| "elsewhere".clone_into(&mut options.name)).await;
    for (name, spec, metadata) in pods {
        let mut spec = spec.clone();
        spec["nodeName"] = json!("local");
        platform.create_with(name, spec, metadata.clone()).await;
    }
    platform.stop().await;
}

/// The parent of a container's first process.
pub fn shim_of(main: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{main}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

pub fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn family(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "echo $$ > {}; setsid sh -c 'echo $$ > {}; exec sleep 1000' >/dev/null 2>&1 </dev/null & sleep 1000",
        at("main"),
        at("daemon")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_of_the_platform_leaves_no_process_and_pods_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (server, job) = (folder.path().join("server"), folder.path().join("job"));
    let data = folder.path().join("data");
    for path in [&server, &job, &data] {
        std::fs::create_dir(path).unwrap();
    }
    let spec = |policy: &str, folder: &Path| json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x", "command": sh(&family(folder))}]});
    seed(&data, &[("server", spec("Always", &server), json!({})), ("job", spec("Never", &job), json!({}))]).await;

    let mut platform = start_platform(&data);
    let mut pids = vec![];
    for folder in [&server, &job] {
        for name in ["main", "daemon"] {
            pids.push(pid_in(&folder.join(name)).await);
        }
    }
    platform.kill();
    wait_until("every process of the pods is gone", async || pids.iter().all(|pid| !is_alive(*pid))).await;

    let platform = Platform::start_on(&data, |_| {}).await;
    let job = platform.wait_phase("job", "Failed").await;
    assert_eq!(condition(&job, "DisruptionTarget").unwrap().status, "True");
    let server = platform
        .wait("server", "running again", |pod| is_ready(pod) && container(pod, 0).is_some_and(|c| c.restart_count == 1))
        .await;
    assert_eq!(phase(&server), "Running");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_finds_what_lost_its_shim() {
    let platform = Platform::start().await;
    let folder = tempfile::tempdir().unwrap();
    platform.create("orphan", json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": sh(&family(folder.path()))}]})).await;
    let main = pid_in(&folder.path().join("main")).await;
    let daemon = pid_in(&folder.path().join("daemon")).await;
    signal(shim_of(main), Signal::KILL);
    let pod = platform.wait_phase("orphan", "Failed").await;
    assert_eq!(crate::platform::ended(&pod, 0).exit_code, 137);
    assert!(!is_alive(main) && !is_alive(daemon));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_platform_leaves_work_for_its_next_life() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let script = format!("echo $$ > {}; exec sleep 1000", pid_file.display());
    let platform = Platform::start_on(&data, |_| {}).await;
    let spec = |policy: &str| json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x", "command": sh(&script)}]});
    platform.create("again", spec("Always")).await;
    let pid = pid_in(&pid_file).await;
    let before = platform.wait("again", "ready", is_ready).await.status.unwrap().pod_ip;
    platform.create("once", json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": ["sleep", "1000"]}]})).await;
    platform.wait("once", "ready", is_ready).await;
    platform.stop().await;
    assert!(!is_alive(pid));

    let platform = Platform::start_on(&data, |_| {}).await;
    let pod = platform
        .wait("again", "running again", |pod| container(pod, 0).is_some_and(|c| c.restart_count == 1) && is_ready(pod))
        .await;
    let once = platform.wait_phase("once", "Failed").await;
    assert!(condition(&once, "DisruptionTarget").is_some());
    assert_ne!(pod.status.unwrap().pod_ip, None);
    assert_ne!(before, None);
    platform.stop().await;
}
