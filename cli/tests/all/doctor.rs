//! `doctor` on a running platform.

use crate::harness::{Scratch, text};

#[test]
fn a_well_platform_passes_every_check() {
    let scratch = Scratch::new();
    let _platform = scratch.up();
    let output = scratch.run(&["doctor"]);
    let all = text(&output);
    assert!(output.status.success(), "{all}");
    for part in
        ["ok      API server v1.", "ok      kind inferences.serving.kubedl.io", "ok      kind routetables.modelway.io"]
    {
        assert!(all.contains(part), "{all}\nlacks {part:?}");
    }
    let document: serde_json::Value = serde_json::from_slice(&scratch.run(&["doctor", "-o", "json"]).stdout).unwrap();
    let checks = document["checks"].as_array().unwrap();
    // One a kind, and the server.
    let expected = modelway_api::crds().len() + 1;
    assert!(checks.len() == expected && checks.iter().all(|check| check["problem"].is_null()), "{document:#}");
}

#[test]
fn a_controller_that_does_not_answer_is_named() {
    let scratch = Scratch::new();
    let _platform = scratch.up();
    // Nothing listens on port 1.
    let output = scratch.run(&["doctor", "--controller", "http://127.0.0.1:1"]);
    let all = text(&output);
    assert_eq!(output.status.code(), Some(1), "{all}");
    let failed = format!("1 of {} checks failed", modelway_api::crds().len() + 2);
    assert!(all.contains("FAILED  controller at http://127.0.0.1:1") && all.contains(&failed), "{all}");
}

#[test]
fn without_held_jobs_there_is_nothing_to_release() {
    let scratch = Scratch::new();
    let _platform = scratch.up();
    let output = scratch.run(&["doctor", "--release"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "released 0 jobs\n");
    let wrong = scratch.run(&["doctor", "--release", "--stop", "no-slash"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}
