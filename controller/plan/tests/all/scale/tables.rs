//! What the autoscaler does on each trace, as tables, and what must hold of them.

use std::fmt::Write as _;

use modelway_plan::scale::{FIRST_PODS, Why};

use super::{
    play::{Tick, play, policy},
    trace::{self, Trace},
};

/// Longest silence of a router, in tenths of a second.
const HEARTBEAT: u32 = 100;

/// The ticks at which the decision is another, as a table.
fn table(ticks: &[Tick]) -> String {
    let mut text = String::from("second  demand  ready  pods  why\n");
    let mut last = None;
    for tick in ticks {
        if last.replace(tick.decision) != Some(tick.decision) {
            let Tick { second, level, ready, decision, .. } = tick;
            writeln!(text, "{second:>6}  {level:>6}  {ready:>5}  {:>4}  {}", decision.replicas, decision.why).unwrap();
        }
    }
    text
}

/// The folder's table of a trace. After a change of the rules that is meant: `MODELWAY_WRITE_TABLES=1`.
fn compare(trace: &Trace, ticks: &[Tick]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/scale/tables");
    let path = path.join(format!("{}.txt", trace.name));
    let found = table(ticks);
    if std::env::var_os("MODELWAY_WRITE_TABLES").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "another table than in {}", path.display());
}

fn followed(trace: &Trace, longest_silence: u32) -> Vec<Tick> {
    play(trace, &policy(trace), longest_silence)
}

fn played(trace: &Trace) -> Vec<Tick> {
    let ticks = followed(trace, HEARTBEAT);
    compare(trace, &ticks);
    ticks
}

fn pods_at(ticks: &[Tick], second: u32) -> u32 {
    ticks.iter().rfind(|tick| tick.second <= second).unwrap().decision.replicas
}

/// Changes of the number from a second on.
fn changes(ticks: &[Tick], from: u32) -> usize {
    let replicas: Vec<u32> =
        ticks.iter().filter(|tick| tick.second >= from).map(|tick| tick.decision.replicas).collect();
    replicas.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn step_is_followed_within_six_seconds_and_kept() {
    let ticks = played(&trace::step());
    assert_eq!(pods_at(&ticks, 119), 1);
    assert!(pods_at(&ticks, 122) > 1, "begins at the next tick");
    assert_eq!(pods_at(&ticks, 126), 8, "fifty at seven for each pod");
    assert_eq!(changes(&ticks, 126), 0, "no flap in the next five minutes");
}

#[test]
fn ramp_is_followed_up_and_down() {
    let trace = trace::ramp();
    let ticks = played(&trace);
    let peak = ticks.iter().map(|tick| tick.decision.replicas).max().unwrap();
    assert_eq!(peak, 15, "a hundred at seven for each pod");
    assert_eq!(pods_at(&ticks, 1_440), 1);
    let short = ticks.iter().filter(|tick| tick.level as f64 > f64::from(tick.ready) * policy(&trace).target).count();
    assert!(short <= ticks.len() / 50, "{short} ticks with more requests than full pods take");
}

#[test]
fn spike_grows_at_once_and_shrinks_after_a_calm_window() {
    let ticks = played(&trace::spike());
    let peak = ticks.iter().map(|tick| tick.decision.replicas).max().unwrap();
    assert!((10..=15).contains(&peak), "{peak}");
    assert_eq!(pods_at(&ticks, 185), peak);
    assert!(pods_at(&ticks, 240) <= 2);
}

#[test]
fn day_costs_at_least_forty_percent_less_than_its_peak() {
    let trace = trace::day();
    let ticks = followed(&trace, HEARTBEAT);
    let policy = policy(&trace);
    let mut levels: Vec<u64> = ticks.iter().map(|tick| tick.level).collect();
    levels.sort_unstable();
    let fixed = (*levels.last().unwrap() as f64 / policy.per_pod()).ceil();
    let used = ticks.iter().map(|tick| f64::from(tick.decision.replicas)).sum::<f64>() / ticks.len() as f64;
    let mut shares: Vec<f64> = ticks.iter().filter_map(|tick| Some(tick.heard? / f64::from(tick.ready))).collect();
    shares.sort_unstable_by(f64::total_cmp);
    let p95 = shares[shares.len() * 95 / 100];
    let changed = changes(&ticks, 0);
    println!(
        "pod hours {:.0} of {:.0}, p95 {p95:.2} of {} for each pod, {changed} changes",
        used * 24.0,
        fixed * 24.0,
        policy.target
    );
    assert!(used <= 0.6 * fixed, "{used} pods on average, {fixed} at the peak");
    assert!(p95 <= policy.target, "{p95} requests for each ready pod");
}

#[test]
fn load_that_flaps_does_not_flap_the_pods() {
    let ticks = played(&trace::flapping());
    assert!(changes(&ticks, 120) <= 2, "{}", changes(&ticks, 120));
    let ticks = played(&trace::edge());
    assert!(changes(&ticks, 60) <= 2, "{}", changes(&ticks, 60));
}

#[test]
fn slow_pod_is_relieved_by_more_pods() {
    let ticks = played(&trace::slow_pod());
    assert_eq!(pods_at(&ticks, 126), 5);
    assert_eq!(pods_at(&ticks, 470), 2);
}

#[test]
fn restart_of_a_router_moves_nothing() {
    let ticks = played(&trace::router_restart());
    assert_eq!(changes(&ticks, 0), 0);
}

#[test]
fn silence_of_routers_never_shrinks() {
    let ticks = played(&trace::missing_data());
    assert_eq!(pods_at(&ticks, 239), 6, "one of two is silent");
    assert_eq!(pods_at(&ticks, 359), 3);
    assert_eq!(pods_at(&ticks, 439), 3, "both are silent");
    assert_eq!(pods_at(&ticks, 495), 3, "one window after the silence");
    assert_eq!(pods_at(&ticks, 560), 1);
}

#[test]
fn sleeps_after_window_and_grace_and_wakes_at_once() {
    let ticks = played(&trace::sleep_and_wake());
    let asleep = ticks.iter().find(|tick| tick.decision.replicas == 0).unwrap();
    assert_eq!((asleep.second, asleep.decision.why), (150, Why::Asleep));
    let woken = ticks.iter().find(|tick| tick.decision.why == Why::Woken).unwrap();
    assert!(!woken.is_regular, "the request that waits is the reason to decide, not the tick");
    assert_eq!((woken.second, woken.ready), (220, 0));
    assert_eq!(pods_at(&ticks, 222), 5, "thirty at seven for each pod");
}

#[test]
fn model_that_never_becomes_ready_is_no_storm() {
    let ticks = played(&trace::never_ready());
    assert!(ticks.iter().all(|tick| tick.decision.replicas <= FIRST_PODS));
}

#[test]
fn start_of_the_controller_keeps_the_pods_for_a_window() {
    let ticks = played(&trace::controller_start());
    assert_eq!(pods_at(&ticks, 60), 10);
    assert_eq!(pods_at(&ticks, 70), 3);
}

#[test]
fn scale_up_rate_waits_for_pods_to_be_ready() {
    let ticks = played(&trace::doubling());
    for tick in &ticks {
        assert!(tick.decision.replicas <= 2 * tick.ready.max(1), "{tick:?}");
    }
    assert_eq!(pods_at(&ticks, 240), 12);
}

#[test]
fn delay_keeps_pods_between_bursts() {
    let ticks = played(&trace::delayed());
    assert_eq!(changes(&ticks, 240), 0);
}

#[test]
fn how_often_routers_report_changes_nothing() {
    for trace in trace::all().into_iter().filter(|trace| trace.seconds < 10_000) {
        let (seldom, often) = (followed(&trace, HEARTBEAT), followed(&trace, 1));
        assert_eq!(table(&seldom), table(&often), "{}", trace.name);
    }
}
