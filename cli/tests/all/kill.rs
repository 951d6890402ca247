//! Kill -9 and Ctrl-C at any stage: state stays, orphans go, work goes on, nothing is published twice.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Scratch, eventually, text};

const QUICKSTART: [&str; 10] =
    ["quickstart", "--no-tuning", "--output", "json", "--users", "100", "--api-port", "0", "--registry-port", "0"];

#[test]
fn a_killed_quickstart_goes_on_and_publishes_each_job_once() {
    let scratch = Scratch::new();
    // Stages differ from machine to machine: what is killed is what has been reached at these times.
    for milliseconds in [400, 1_200, 2_500, 4_000, 6_000] {
        let mut child = scratch
            .command(&QUICKSTART)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(milliseconds) && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The shims see the pipe close and end their pods by themselves.
        scratch.wait_until_nothing_is_left();
    }
    let output = scratch.run(&QUICKSTART);
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["traffic"]["errors"], 0, "{document:#}");
    let platform = scratch.up();
    let versions = scratch.run(&["get", "mv", "-o", "json"]);
    let list: Value = serde_json::from_slice(&versions.stdout).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list:#}");
    let pods = scratch.run(&["get", "jobs", "-o", "name"]);
    let builds: BTreeSet<String> = String::from_utf8_lossy(&pods.stdout)
        .lines()
        .filter(|line| line.contains("-build-"))
        .map(str::to_owned)
        .collect();
    assert!(builds.len() <= 2 * 6, "builds: {builds:?}");
    drop(platform);
}

#[test]
fn interrupted_quickstart_stops_everything_it_started() {
    for milliseconds in [300, 2_000, 5_000] {
        let scratch = Scratch::new();
        let mut child = scratch
            .command(&QUICKSTART)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::park_timeout(Duration::from_millis(milliseconds));
        let id = child.id().to_string();
        std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        let mut status = None;
        eventually("the quickstart ends", || {
            status = child.try_wait().unwrap();
            status.map(|_| ()).ok_or_else(|| "it still runs".to_owned())
        });
        assert_eq!(status.and_then(|status| status.code()), Some(130), "after {milliseconds} ms");
        assert_eq!(scratch.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn pods_die_with_a_killed_platform_and_come_back_with_the_next() {
    let scratch = Scratch::new();
    let output =
        scratch.run(&["quickstart", "--first-answer", "--output", "json", "--api-port", "0", "--registry-port", "0"]);
    assert!(output.status.success(), "{}", text(&output));
    let platform = scratch.up();
    let running = || scratch.leftovers().iter().filter(|line| line.contains("runtime onnx")).count();
    eventually("two servers run", || if running() >= 2 { Ok(()) } else { Err(format!("{:?}", scratch.leftovers())) });
    platform.kill();
    scratch.wait_until_nothing_is_left();
    let platform = scratch.up();
    eventually("two servers run again", || {
        if running() >= 2 { Ok(()) } else { Err(format!("{:?}", scratch.leftovers())) }
    });
    drop(platform);
}
