//! Our autoscaler beside Knative's own, on the same loads: where both differ, it is one of the rules in
//! `docs/scaling.md`.

#![expect(clippy::print_stderr, reason = "says why a test is skipped")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use modelway_plan::scale::{FIRST_PODS, Policy, Why};
use serde::Deserialize;
use serde_json::json;

use play::Tick;
use trace::Trace;

#[path = "../../../controller/plan/tests/all/scale/play.rs"]
mod play;
#[path = "../../../controller/plan/tests/all/scale/trace.rs"]
mod trace;

/// Where this is set, what is missing is a failure.
const REQUIRE: &str = "MODELWAY_REQUIRE_PEERS";
/// Longest silence of a router, in tenths of a second.
const HEARTBEAT: u32 = 100;

#[derive(Deserialize)]
struct Decision {
    at: u32,
    pods: u32,
    valid: bool,
}

/// One tick with both decisions; Knative's within the bounds of the policy, as its reconciler brings it.
struct Row {
    tick: Tick,
    knative: Option<u32>,
}

/// The program, built now unless it is there; where it cannot be had, says why the test is skipped.
fn knative() -> Option<PathBuf> {
    let output = Command::new(folder().join("build.sh")).output().unwrap();
    if output.status.success() {
        return Some(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(std::env::var_os(REQUIRE).is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    None
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("knative")
}

fn ask(program: &Path, trace: &Trace, policy: &Policy, ticks: &[Tick]) -> Vec<Decision> {
    let mut input = json!({
        "target": policy.per_pod(), "full": policy.target, "pods": trace.pods,
        "window": policy.window.as_secs_f64(), "panicWindow": policy.panic_window.as_secs_f64(),
        "panicThreshold": policy.panic_threshold, "scaleDownDelay": policy.scale_down_delay.as_secs_f64(),
        "maxScaleUpRate": policy.max_scale_up_rate, "maxScaleDownRate": policy.max_scale_down_rate,
    })
    .to_string();
    for tick in ticks.iter().filter(|tick| tick.second > 0) {
        for at in [tick.second - 1, tick.second] {
            let decide = at == tick.second;
            let line = json!({"at": at, "concurrency": tick.heard, "ready": tick.ready, "decide": decide});
            write!(input, "\n{line}").unwrap();
        }
    }
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn beside(program: &Path, trace: &Trace, policy: &Policy) -> Vec<Row> {
    let mut ticks = play::play(trace, policy, HEARTBEAT);
    ticks.retain(|tick| tick.is_regular);
    let decisions = ask(program, trace, policy, &ticks);
    let row = |(tick, decision): (&Tick, &Decision)| {
        assert_eq!(tick.second, decision.at);
        Row { tick: *tick, knative: decision.valid.then(|| policy.within(decision.pods)) }
    };
    let asked = ticks.iter().filter(|tick| tick.second > 0);
    asked.zip(&decisions).map(row).collect()
}

/// Rows at which something is another than before.
fn table(rows: &[Row]) -> String {
    let mut text = String::from("second  demand  ready  pods  knative  why\n");
    let mut last = None;
    for Row { tick, knative } in rows {
        if last.replace((tick.decision, *knative)) != Some((tick.decision, *knative)) {
            let Tick { second, level, ready, decision, .. } = tick;
            let knative = knative.map_or_else(|| "-".to_owned(), |pods| pods.to_string());
            let replicas = decision.replicas;
            writeln!(text, "{second:>6}  {level:>6}  {ready:>5}  {replicas:>4}  {knative:>7}  {}", decision.why)
                .unwrap();
        }
    }
    text
}

/// What was lately, and still explains a difference.
#[derive(Default)]
struct Lately {
    asleep: Option<u32>,
    silent: Option<u32>,
}

impl Lately {
    fn see(&mut self, tick: &Tick) {
        if tick.decision.replicas == 0 {
            self.asleep = Some(tick.second);
        }
        if matches!(tick.decision.why, Why::NoData | Why::RoutersSilent) {
            self.silent = Some(tick.second);
        }
    }
}

/// The rule of ours behind a difference; none where there is no such rule.
fn rule(row: &Row, policy: &Policy, lately: &Lately) -> Option<&'static str> {
    let (ours, second) = (row.tick.decision.replicas, row.tick.second);
    let is_more = Some(ours) > row.knative;
    let within =
        |then: Option<u32>, length: Duration| then.is_some_and(|then| u64::from(second - then) <= length.as_secs() + 2);
    match row.tick.decision.why {
        Why::Idle if row.knative == Some(0) && ours == 1 => Some("grace"),
        Why::NoData => Some("no data"),
        Why::RoutersSilent if is_more => Some("silent router"),
        Why::FirstPods | Why::Woken if ours <= FIRST_PODS && Some(ours) < row.knative => Some("first pods"),
        Why::Woken | Why::Burst if is_more && within(lately.asleep, policy.panic_window) => Some("wake"),
        Why::Started | Why::Demand if is_more && within(lately.silent, policy.window) => Some("after a gap"),
        Why::Demand if is_more && policy.tolerance > 1.0 => Some("tolerance"),
        _ => None,
    }
}

/// How often each rule made a difference.
fn of_rules(rows: &[Row], policy: &Policy) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut lately = Lately::default();
    for row in rows {
        lately.see(&row.tick);
        if row.knative != Some(row.tick.decision.replicas) {
            let rule = rule(row, policy, &lately);
            assert!(rule.is_some(), "no rule for {:?}, where Knative decides {:?}", row.tick, row.knative);
            *counts.entry(rule.unwrap_or_default()).or_default() += 1;
        }
    }
    counts
}

/// The folder's table of a trace. After a change of the rules that is meant: `MODELWAY_WRITE_TABLES=1`.
fn compare(name: &str, found: &str) {
    let path = folder().join("tables").join(format!("{name}.txt"));
    if std::env::var_os("MODELWAY_WRITE_TABLES").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "another table than in {}", path.display());
}

#[test]
fn without_the_tolerance_decisions_are_those_of_knative_but_for_named_rules() {
    let Some(program) = knative() else { return };
    for trace in trace::all() {
        let mut policy = play::policy(&trace);
        policy.tolerance = 1.0;
        let rows = beside(&program, &trace, &policy);
        let rules = of_rules(&rows, &policy);
        println!("{}: {rules:?} of {}", trace.name, rows.len());
        let has_own_rules = ["sleep-and-wake", "never-ready", "missing-data"].contains(&trace.name);
        assert!(has_own_rules || rules.is_empty(), "{}: {rules:?}", trace.name);
    }
}

#[test]
fn every_difference_to_knative_has_its_rule() {
    let Some(program) = knative() else { return };
    let mut summary = String::from("trace             ticks  differ  rules\n");
    for trace in trace::all() {
        let policy = play::policy(&trace);
        let rows = beside(&program, &trace, &policy);
        let rules = of_rules(&rows, &policy);
        let told: Vec<String> = rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
        let differ: usize = rules.values().sum();
        let line = format!("{:<16}  {:>5}  {differ:>6}  {}", trace.name, rows.len(), told.join(", "));
        writeln!(summary, "{}", line.trim_end()).unwrap();
        // A day has too many rows to read.
        if trace.seconds < 10_000 {
            compare(trace.name, &table(&rows));
        }
    }
    compare("summary", &summary);
}
