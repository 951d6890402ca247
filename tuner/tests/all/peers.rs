//! Percentiles agree with vegeta's on the same server, and with the truth.
//!
//! Needs Go, which builds vegeta once for each version.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use modelway_tuner::load::constraint::Metric;
use modelway_tuner::load::units::seconds;

use crate::server::{Server, ok, pause};
use crate::{constant, finish};

const MODULE: &str = "github.com/tsenart/vegeta/v12";
const VERSION: &str = "v12.13.0";
/// Shortest and longest answer, in seconds; each time between them is as likely.
const FROM: f64 = 0.02;
const TO: f64 = 0.12;
const RATE: u64 = 100;
const REQUESTS: u64 = 500;
/// What a busy machine adds.
const TOLERANCE: f64 = 0.012;

/// Answers take times that are spread evenly, whatever the number of requests (steps of the golden ratio).
fn spread() -> Server {
    let count = AtomicU64::new(0);
    Server::start(move |_, socket| {
        let share = (count.fetch_add(1, Ordering::SeqCst) as f64 * 0.618_033_988_749_895).fract();
        pause(Duration::from_secs_f64(FROM + (TO - FROM) * share));
        ok(socket, "x")
    })
}

#[test]
fn percentiles_agree_with_the_truth_and_with_vegeta() {
    let server = spread();
    let measured = finish(&constant(&server.url(), RATE as f64, REQUESTS)).measured;
    assert_eq!(measured.ok, REQUESTS);
    let ours = |quantile| seconds(measured.metric(Metric::Latency).quantile(quantile));
    for quantile in [0.5, 0.9, 0.95] {
        let truth = FROM + (TO - FROM) * quantile;
        assert!((ours(quantile) - truth).abs() < TOLERANCE, "{quantile}: {} is not {truth}", ours(quantile));
    }
    let Some(vegeta) = vegeta() else { return };
    let theirs = attack(&vegeta, &server.url());
    for (quantile, name) in [(0.5, "50th"), (0.9, "90th"), (0.95, "95th")] {
        let theirs = theirs["latencies"][name].as_f64().unwrap() / 1e9;
        assert!((ours(quantile) - theirs).abs() < TOLERANCE, "{quantile}: {} and vegeta {theirs}", ours(quantile));
    }
}

fn attack(vegeta: &PathBuf, url: &str) -> serde_json::Value {
    let duration = format!("-duration={}s", REQUESTS / RATE);
    let mut attack = Command::new(vegeta)
        .args(["attack", &format!("-rate={RATE}"), &duration])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    attack.stdin.take().unwrap().write_all(format!("GET {url}\n").as_bytes()).unwrap();
    let results = attack.stdout.take().unwrap();
    let report = Command::new(vegeta).args(["report", "-type=json"]).stdin(results).output().unwrap();
    assert!(attack.wait().unwrap().success());
    serde_json::from_slice(&report.stdout).unwrap()
}

/// The program, built unless it is there; none where that cannot be.
fn vegeta() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home)?;
    let folder = cache.join("modelway/peers").join(format!("vegeta-{VERSION}"));
    let program = folder.join("vegeta");
    if !program.is_file() {
        // Built aside and moved: a run that is cut off leaves nothing half.
        let fresh = cache.join("modelway/peers").join(format!("vegeta-{VERSION}.{}", std::process::id()));
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/local/go/bin";
        let built = Command::new("sh")
            .args(["-c", "exec go install \"$0\"", &format!("{MODULE}@{VERSION}")])
            .env("PATH", path)
            .env("GOBIN", &fresh)
            .env("GOFLAGS", "-trimpath")
            .env("CGO_ENABLED", "0")
            .output();
        let built = built.is_ok_and(|output| output.status.success());
        let _there_by_another = built.then(|| std::fs::rename(&fresh, &folder));
        let _left = std::fs::remove_dir_all(&fresh);
    }
    if program.is_file() {
        return Some(program);
    }
    assert!(std::env::var_os("MODELWAY_REQUIRE_PEERS").is_none(), "vegeta is required here, and Go could not build it");
    None
}
