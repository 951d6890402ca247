//! An experiment on a platform that is killed again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Scratch, eventually, text};

const EXPERIMENT: &str = include_str!("../../../examples/profiling/morphling.yaml");

/// Every candidate has its answer once, in the grid's order; no trial's client has ended twice.
#[test]
fn an_experiment_goes_on_after_kill_9_and_measures_nothing_twice() {
    let scratch = Scratch::new();
    let mut platform = scratch.up();
    let measured = scratch.data().join("measured");
    let client = format!("-c, 'sleep 1; echo \"$TrialName\" >> {}; echo", measured.display());
    let manifest = scratch.data().join("experiment.yaml");
    std::fs::write(&manifest, EXPERIMENT.replace("-c, 'echo", &client)).unwrap();
    let applied = scratch.run(&["apply", "-f", &manifest.display().to_string()]);
    assert!(applied.status.success(), "{}", text(&applied));
    for milliseconds in [900, 2_100, 1_400] {
        std::thread::park_timeout(Duration::from_millis(milliseconds));
        platform.kill();
        scratch.wait_until_nothing_is_left();
        platform = scratch.up();
    }
    let get = |what: &[&str]| -> Value {
        serde_json::from_slice(&scratch.run(&[&["get"], what, &["-o", "json"]].concat()).stdout).unwrap_or_default()
    };
    let status = eventually("the experiment ends", || {
        let status = get(&["pe", "morphling-grid"])["status"].clone();
        if status["completionTime"].is_string() { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!(status["conditions"].as_array().unwrap().last().unwrap()["type"], "Succeeded", "{status:#}");
    let results = status["trialResultList"].as_array().unwrap();
    let values: Vec<String> = results.iter().map(candidate).collect();
    assert_eq!(values, ["100m 1", "100m 2", "200m 1", "200m 2"], "{status:#}");

    let ended = std::fs::read_to_string(&measured).unwrap();
    let names: Vec<&str> = ended.lines().collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "measured twice: {names:?}");
    for trial in status["succeededTrialList"].as_array().unwrap() {
        assert!(names.contains(&trial.as_str().unwrap()), "{trial} was not measured: {names:?}");
    }
    let explained = text(&scratch.run(&["explain", "pe", "morphling-grid"]));
    assert!(explained.contains("ok  ProfilingExperiment morphling-grid  Recommended: "), "{explained}");
    assert!(explained.contains("Next: apply status.recommendation.patch"), "{explained}");
    let name = status["succeededTrialList"][0].as_str().unwrap();
    let explained = text(&scratch.run(&["explain", "trial", name]));
    assert!(explained.contains(&format!("ok  Trial {name}  Measured: ")), "{explained}");
    for kind in ["deployments", "jobs", "pods", "services"] {
        let left = get(&[kind, "-l", "modelway.io/trial"]);
        assert_eq!(left["items"].as_array().map(Vec::len), Some(0), "{left:#}");
    }
    drop(platform);
}

fn candidate(result: &Value) -> String {
    let values = result["tunableParameters"].as_array().unwrap();
    values.iter().map(|value| value["value"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}
