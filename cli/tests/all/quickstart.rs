//! The quickstart, shortened, end to end.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{MODELWAY, Scratch, exists, text};

const SHORT: [&str; 9] =
    ["quickstart", "--output", "json", "--users", "300", "--api-port", "0", "--registry-port", "0"];

#[test]
fn a_story_killed_while_it_tunes_goes_on_and_a_third_one_tunes_no_more() {
    let scratch = Scratch::new();
    kill_while_it_tunes(&scratch);

    let output = scratch.run(&SHORT);
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&document);
    check_tuning(&document["tuning"]);
    assert_eq!((&document["start"], &document["tuning"]["stored"]), (&"resumed".into(), &false.into()));
    scratch.wait_until_nothing_is_left();

    let again = scratch.run(&["quickstart", "--users", "100"]);
    let all = text(&again);
    assert!(again.status.success() && !all.contains('\u{1b}'), "escape codes in a pipe: {all:?}");
    let versions = document["versions"].as_array().unwrap().iter();
    let images = versions.map(|version| version["image"].as_str().unwrap());
    let report = document["tuning"]["report"].as_str().unwrap();
    let parts =
        ["platform", "train", "publish", "serve", "traffic", "reweight", "scaling", "found before", "down --purge"];
    let figures =
        ["first answer after", "failed requests 0", "of 72 candidates for v2, found by an earlier run", report];
    for part in parts.into_iter().chain(figures).chain(images) {
        assert!(all.contains(part), "{all}\nlacks {part:?}");
    }
    assert!(!all.contains("  trial "), "it tunes again: {all}");
    scratch.wait_until_nothing_is_left();
}

/// Two trials are over and a third is under way.
fn kill_while_it_tunes(scratch: &Scratch) {
    let mut command = scratch.command(&SHORT);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    while said.iter().filter(|line: &&String| line.starts_with("  trial ")).count() < 2 {
        said.push(lines.next().unwrap_or_else(|| panic!("it ended before it tuned: {said:#?}")));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.wait_until_nothing_is_left();
}

fn check_tuning(tuning: &Value) {
    let count = |field: &str| tuning[field].as_u64().unwrap();
    assert!(count("candidates") >= 64 && (4..=12).contains(&count("trials")), "{tuning:#}");
    let gain = |field: &str| tuning["gain"][field].as_f64().unwrap();
    assert!(gain("low") <= gain("estimate") && gain("estimate") <= gain("high"), "{tuning:#}");
    for settings in ["baseline", "recommended"] {
        assert_eq!(tuning[settings].as_object().unwrap().len(), 3, "{tuning:#}");
    }
    assert_eq!(tuning["baseline"]["--max-batch-size"], "1", "{tuning:#}");
    let report = std::fs::read_to_string(tuning["report"].as_str().unwrap()).unwrap();
    assert!(report.starts_with("<!DOCTYPE html>") && report.contains("max-batch-size"), "{report}");
}

fn check(document: &Value) {
    let versions = document["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 2, "{document:#}");
    for version in versions {
        assert!(version["image"].as_str().unwrap().contains("@sha256:"), "{version:#}");
    }
    assert!(versions[1]["sizeBytes"].as_u64().unwrap() > 38_000_000, "{document:#}");
    let traffic = &document["traffic"];
    assert_eq!((&traffic["errors"], &traffic["stickyViolations"]), (&0.into(), &0.into()), "{document:#}");
    let (v1, v2) = (traffic["users"]["v1"].as_u64().unwrap(), traffic["users"]["v2"].as_u64().unwrap());
    assert_eq!(v1 + v2, 300);
    // 10 % of 300, five deviations of the binomial either side.
    assert!((5..=56).contains(&v2), "{v2} users on v2");
    assert!(traffic["movedOnReweight"].as_u64().unwrap() > 60, "{document:#}");
    let accuracy = |arm: usize| document["arms"][arm]["accuracy"].as_f64().unwrap();
    assert!((0.8..0.97).contains(&accuracy(0)) && accuracy(1) > 0.95, "{document:#}");
    let scaling = &document["scaling"];
    assert_eq!(scaling["errors"], 0, "{scaling:#}");
    assert!(scaling["coldStartMs"].as_f64().unwrap() > 0.0, "{scaling:#}");
    assert!(scaling["heldMax"].as_u64().unwrap() > 0, "{scaling:#}");
    let pods = |field: &str| -> Vec<i64> {
        scaling["replicas"].as_array().unwrap().iter().map(|point| point[field].as_i64().unwrap()).collect()
    };
    let (desired, ready) = (pods("desired"), pods("ready"));
    assert!(desired.iter().max().unwrap() > &1 && ready.iter().max().unwrap() > &1, "{scaling:#}");
    assert_eq!((desired.last(), ready.last()), (Some(&0), Some(&0)), "{scaling:#}");
    assert!(document["peakRssBytes"].as_u64().unwrap() > document["platformIdleRssBytes"].as_u64().unwrap());
}

/// uid 65532, a network namespace with nothing but `lo`, an empty HOME, a foreign working folder.
#[test]
fn first_answer_needs_no_rights_no_network_and_no_home() {
    if !rustix_is_root() || !["unshare", "ip", "setpriv"].iter().all(|program| exists(program)) {
        assert!(
            std::env::var_os("MODELWAY_REQUIRE_PEERS").is_none(),
            "root, unshare, ip and setpriv are required here"
        );
        println!("SKIPPED: needs root, unshare, ip and setpriv to take rights away");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = folder.path().join("modelway");
    std::fs::copy(MODELWAY, &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "ip link set lo up && cd {0} && exec setpriv --reuid 65532 --regid 65532 --clear-groups \
         env -i HOME={0}/nowhere PATH=/usr/bin:/bin {0}/modelway quickstart --first-answer --output json",
        folder.path().display()
    );
    let output = Command::new("unshare").args(["--net", "sh", "-c", &script]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["seconds"]["firstAnswer"].as_f64().unwrap() > 0.0);
    assert_eq!(document["start"], "fresh");
}

fn rustix_is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t0"))
}
