use serde_json::json;

use super::*;
use crate::pod::record::Sandbox;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "u", "generation": 3},
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a", "image": "x"}]},
        "status": {"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            {"type": "example.com/gate", "status": "True"}
        ]}
    }))
    .unwrap()
}

fn condition_of<'a>(status: &'a PodStatus, name: &str) -> &'a PodCondition {
    status.conditions.iter().flatten().find(|condition| condition.type_ == name).unwrap()
}

#[test]
fn shows_the_way_from_pending_to_ready() {
    let (pod, address) = (pod(), Some(Ipv4Addr::new(127, 8, 0, 1)));
    let rules = PodRules::of(&pod);
    let mut record = PodRecord { sandbox: Sandbox::Ready, ..PodRecord::new(&rules, at(0)) };
    let waiting = status(&pod, &rules, &record, address, at(1));
    assert_eq!((waiting.phase.as_deref(), waiting.pod_ip.as_deref()), (Some("Pending"), Some("127.8.0.1")));
    let main = &waiting.container_statuses.as_ref().unwrap()[0];
    let reason = main.state.as_ref().unwrap().waiting.as_ref().unwrap().reason.as_deref();
    assert_eq!(reason, Some("PodInitializing"));
    assert_eq!(condition_of(&waiting, "Initialized").status, "False");
    let kept = condition_of(&waiting, "Ready").last_transition_time.as_ref().unwrap().0;
    assert_eq!(kept.to_string(), "2020-01-01T00:00:00Z");
    assert_eq!(condition_of(&waiting, "example.com/gate").status, "True");

    record.containers[0].done = true;
    record.containers[0].runs = 1;
    record.containers[0].last = Some(Termination {
        exit_code: 0,
        signal: None,
        reason: "Completed".into(),
        message: None,
        started_at: at(0),
        finished_at: at(1),
    });
    record.containers[1].begin(&rules.containers[1], at(2));
    let running = status(&pod, &rules, &record, address, at(2));
    assert_eq!(running.phase.as_deref(), Some("Running"));
    let ready = condition_of(&running, "Ready");
    assert_eq!((ready.status.as_str(), &ready.last_transition_time), ("True", &Some(Time(at(2)))));
    assert_eq!(running.observed_generation, Some(3));
}

#[test]
fn names_the_known_reason_of_an_unready_container() {
    let pod = pod();
    let rules = PodRules::of(&pod);
    let mut record = PodRecord::new(&rules, at(0));
    record.containers[1].begin(&rules.containers[1], at(0));
    let running = record.containers[1].running_mut().unwrap();
    running.ready = false;
    running.not_ready = Some(Reason::new("ListensOnAllAddresses", "bind $(POD_IP)"));
    let shown = status(&pod, &rules, &record, None, at(0));
    assert_eq!(condition_of(&shown, "Ready").reason.as_deref(), Some("ListensOnAllAddresses"));
}

#[test]
fn keeps_the_phase_open_until_everything_has_stopped() {
    let pod = pod();
    let rules = PodRules::of(&pod);
    let mut record = PodRecord::new(&rules, at(0));
    record.containers[1].begin(&rules.containers[1], at(0));
    record.outcome = Some(Outcome::Failed { why: Some(Reason::new("DeadlineExceeded", "late")), disrupted: true });
    assert_ne!(status(&pod, &rules, &record, None, at(0)).phase.as_deref(), Some("Failed"));
    record.containers[1].state = ContainerState::Waiting(Reason::new("x", ""));
    let shown = status(&pod, &rules, &record, None, at(0));
    assert_eq!((shown.phase.as_deref(), shown.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
    assert_eq!(condition_of(&shown, "DisruptionTarget").status, "True");
}

#[test]
fn patches_only_what_differs() {
    let (before, after) =
        (json!({"a": 1, "b": {"c": 1, "d": 2}, "l": [1]}), json!({"b": {"c": 1, "d": 3}, "l": [1], "n": 1}));
    assert_eq!(difference(&before, &after), Some(json!({"a": null, "b": {"d": 3}, "n": 1})));
    assert_eq!(difference(&after, &after), None);
}
