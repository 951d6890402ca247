use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod::backoff::BackoffRule;
use crate::pod::record::{ContainerState, Reason, StopRequest, Stopping, Termination};

const SECOND: Duration = Duration::from_secs(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn rules(spec: &Value) -> PodRules {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    PodRules::of(&pod)
}

fn ready(rules: &PodRules) -> PodRecord {
    PodRecord { sandbox: Sandbox::Ready, ..PodRecord::new(rules, at(0)) }
}

fn ended(code: i32, from: i64, to: i64) -> Termination {
    Termination {
        exit_code: code,
        signal: None,
        reason: "Error".into(),
        message: None,
        started_at: at(from),
        finished_at: at(to),
    }
}

fn end(rules: &PodRules, record: &mut PodRecord, index: usize, code: i32, now: i64) {
    let termination = ended(code, now, now);
    record.containers[index].end(&rules.containers[index], &BackoffRule::RESTART, termination);
}

fn begin(rules: &PodRules, record: &mut PodRecord, index: usize, now: i64) {
    record.containers[index].begin(&rules.containers[index], at(now));
}

#[test]
fn prepares_before_it_starts_and_waits_between_attempts() {
    let rules = rules(&json!({"containers": [{"name": "a"}]}));
    let mut record = PodRecord::new(&rules, at(0));
    assert_eq!(plan(&rules, &record, at(0)).actions, [Action::Prepare]);
    record.sandbox = Sandbox::Preparing;
    assert_eq!(plan(&rules, &record, at(0)), Plan::default());
    record.sandbox = Sandbox::Missing { retry_at: Some(at(5)) };
    assert_eq!(plan(&rules, &record, at(1)), Plan { actions: vec![], wake: Some(at(5)) });
    record.sandbox = Sandbox::Ready;
    assert_eq!(plan(&rules, &record, at(1)).actions, [Action::Start { container: 0 }]);
}

#[test]
fn runs_init_containers_in_order_then_all_main_containers() {
    let rules = rules(&json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}]
    }));
    let mut record = ready(&rules);
    assert_eq!(plan(&rules, &record, at(0)).actions, [Action::Start { container: 0 }]);
    begin(&rules, &mut record, 0, 0);
    assert_eq!(plan(&rules, &record, at(0)).actions, []);
    end(&rules, &mut record, 0, 0, 1);
    let start = |container| Action::Start { container };
    assert_eq!(plan(&rules, &record, at(1)).actions, [start(1)]);
    begin(&rules, &mut record, 1, 1);
    assert_eq!(plan(&rules, &record, at(1)).actions, [start(2), start(3)]);
}

#[test]
fn a_failed_init_container_fails_the_pod_only_under_never() {
    for (policy, fails) in [("Never", true), ("OnFailure", false), ("Always", false)] {
        let rules =
            rules(&json!({"restartPolicy": policy, "initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}));
        let mut record = ready(&rules);
        begin(&rules, &mut record, 0, 0);
        end(&rules, &mut record, 0, 1, 0);
        let actions = plan(&rules, &record, at(0)).actions;
        let concludes = matches!(actions[..], [Action::Conclude(Outcome::Failed { .. })]);
        assert_eq!(concludes, fails, "{policy}");
    }
}

#[test]
fn waits_out_the_backoff() {
    let rules = rules(&json!({"containers": [{"name": "a"}]}));
    let mut record = ready(&rules);
    for _ in 0..2 {
        begin(&rules, &mut record, 0, 0);
        end(&rules, &mut record, 0, 1, 0);
    }
    assert_eq!(plan(&rules, &record, at(9)), Plan { actions: vec![], wake: Some(at(10)) });
    assert_eq!(plan(&rules, &record, at(10)).actions, [Action::Start { container: 0 }]);
    assert!(matches!(&record.containers[0].state, ContainerState::Waiting(why) if why.reason == "CrashLoopBackOff"));
    assert_eq!(record.containers[0].restarts(), 1);
}

#[test]
fn concludes_by_the_exit_codes_of_the_main_containers() {
    let rules = rules(&json!({"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}));
    for (code, succeeds) in [(0, true), (3, false)] {
        let mut record = ready(&rules);
        begin(&rules, &mut record, 0, 0);
        begin(&rules, &mut record, 1, 0);
        end(&rules, &mut record, 0, 0, 1);
        assert_eq!(plan(&rules, &record, at(1)).actions, []);
        end(&rules, &mut record, 1, code, 1);
        let actions = plan(&rules, &record, at(1)).actions;
        assert_eq!(actions == [Action::Conclude(Outcome::Succeeded)], succeeds, "{actions:?}");
    }
}

#[test]
fn terminates_then_kills_then_removes() {
    let rules = rules(&json!({"containers": [{"name": "a"}]}));
    let mut record = ready(&rules);
    begin(&rules, &mut record, 0, 0);
    record.stop = Some(StopRequest { cause: StopCause::Deleted, grace: 5 * SECOND });
    assert_eq!(plan(&rules, &record, at(0)).actions, [Action::Terminate { container: 0, grace: 5 * SECOND }]);
    let running = record.containers[0].running_mut().unwrap();
    running.stopping = Some(Stopping { kill_at: at(5), killed: false });
    assert_eq!(plan(&rules, &record, at(2)), Plan { actions: vec![], wake: Some(at(5)) });
    assert_eq!(plan(&rules, &record, at(5)).actions, [Action::Kill { container: 0 }]);
    end(&rules, &mut record, 0, 137, 5);
    assert_eq!(plan(&rules, &record, at(5)).actions, [Action::Remove]);
}

#[test]
fn a_shorter_grace_hurries_a_stop() {
    let rules = rules(&json!({"containers": [{"name": "a"}]}));
    let mut record = ready(&rules);
    begin(&rules, &mut record, 0, 0);
    record.containers[0].running_mut().unwrap().stopping = Some(Stopping { kill_at: at(30), killed: false });
    record.stop = Some(StopRequest { cause: StopCause::Vanished, grace: SECOND });
    assert_eq!(plan(&rules, &record, at(0)).actions, [Action::Terminate { container: 0, grace: SECOND }]);
}

#[test]
fn a_condemned_container_is_stopped_and_starts_again() {
    let rules = rules(&json!({"containers": [{"name": "a"}]}));
    let mut record = ready(&rules);
    begin(&rules, &mut record, 0, 0);
    record.containers[0].running_mut().unwrap().condemned = Some("liveness".into());
    assert!(matches!(plan(&rules, &record, at(0)).actions[..], [Action::Terminate { container: 0, .. }]));
    end(&rules, &mut record, 0, 137, 1);
    assert_eq!(plan(&rules, &record, at(1)).actions, [Action::Start { container: 0 }]);
}

#[test]
fn the_deadline_fails_the_pod_and_stops_its_containers() {
    let rules = rules(&json!({"restartPolicy": "Never", "activeDeadlineSeconds": 3, "containers": [{"name": "a"}]}));
    let mut record = ready(&rules);
    begin(&rules, &mut record, 0, 0);
    assert_eq!(plan(&rules, &record, at(0)).wake, Some(at(3)));
    let actions = plan(&rules, &record, at(3)).actions;
    let [Action::Conclude(outcome)] = &actions[..] else { panic!("{actions:?}") };
    assert!(
        matches!(outcome, Outcome::Failed { why: Some(Reason { reason, .. }), .. } if reason == "DeadlineExceeded")
    );
    record.outcome = Some(outcome.clone());
    assert!(matches!(plan(&rules, &record, at(3)).actions[..], [Action::Terminate { .. }]));
}

fn a_state() -> impl Strategy<Value = ContainerRecord> {
    (0_u32..3, any::<bool>(), 0_i32..2, proptest::option::of(0_i64..50)).prop_map(|(kind, done, code, not_before)| {
        let mut record =
            ContainerRecord { done, not_before: not_before.map(at), runs: kind, ..ContainerRecord::default() };
        match kind {
            1 => record.state = ContainerState::Terminated(ended(code, 0, 1)),
            2 => {
                record.done = false;
                let stopping = not_before.map(|second| Stopping { kill_at: at(second), killed: done });
                record.state = ContainerState::Running(Running {
                    since: at(0),
                    started: true,
                    ready: true,
                    not_ready: None,
                    condemned: done.then(String::new),
                    stopping,
                });
            }
            _ => {}
        }
        record
    })
}

proptest! {
    /// Whatever was seen: nothing starts in a pod that stops, nothing that runs or is done starts, and a pod with nothing to
    /// do now knows when to look again or waits for an event.
    #[test]
    fn never_starts_what_must_not_start(states in proptest::collection::vec(a_state(), 3), stops in any::<bool>(), now in 0_i64..60) {
        let rules = rules(&json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]}));
        let mut record = PodRecord { containers: states, ..ready(&rules) };
        record.stop = stops.then_some(StopRequest { cause: StopCause::Deleted, grace: SECOND });
        let next = plan(&rules, &record, at(now));
        for action in &next.actions {
            if let Action::Start { container } = action {
                prop_assert!(!stops);
                let container = &record.containers[*container];
                prop_assert!(!container.done && container.running().is_none());
                prop_assert!(container.not_before.is_none_or(|not_before| not_before <= at(now)));
            }
            if matches!(action, Action::Remove) {
                prop_assert!(!record.any_running());
            }
        }
        prop_assert!(next.wake.is_none_or(|wake| wake > at(now)));
        prop_assert_eq!(plan(&rules, &record, at(now)), next);
    }
}
