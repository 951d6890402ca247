//! The quickstart, shortened, end to end.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{MODELWAY, Scratch, exists, text};

const SHORT: [&str; 9] =
    ["quickstart", "--output", "json", "--users", "300", "--api-port", "0", "--registry-port", "0"];

#[test]
fn tells_the_whole_story_twice_and_leaves_nothing_running() {
    let scratch = Scratch::new();
    let output = scratch.run(&SHORT);
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&document);
    assert_eq!(document["start"], "fresh");
    scratch.wait_until_nothing_is_left();

    let again = scratch.run(&["quickstart", "--output", "json", "--users", "100"]);
    assert!(again.status.success(), "{}", text(&again));
    let second: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(second["start"], "resumed");
    let names = |document: &Value| -> Vec<Value> {
        document["versions"].as_array().unwrap().iter().map(|version| version["image"].clone()).collect()
    };
    assert_eq!(names(&second), names(&document), "a second run publishes nothing again");
    scratch.wait_until_nothing_is_left();
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

#[test]
fn plain_lines_and_no_escape_codes_in_a_pipe() {
    let scratch = Scratch::new();
    let output = scratch.run(&["quickstart", "--users", "50", "--api-port", "0", "--registry-port", "0"]);
    let all = text(&output);
    assert!(output.status.success(), "{all}");
    assert!(!all.contains('\u{1b}'), "escape codes in a pipe: {all:?}");
    for part in [
        "platform",
        "train",
        "publish",
        "serve",
        "traffic",
        "reweight",
        "scaling",
        "first answer after",
        "failed requests 0",
        "down --purge",
    ] {
        assert!(all.contains(part), "{all}\nlacks {part:?}");
    }
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
}

fn rustix_is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t0"))
}
