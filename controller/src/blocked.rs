//! Tells on an object that the controller cannot work on it, and why.

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason,
    conditions::{self, Condition, State},
    labels,
    profiling_conditions::{self, ProfilingCondition},
};
use modelway_plan::{Key, Kind, Plan, json as read, manifest};
use serde_json::{Value, json};

/// The plan that tells; empty when it has been told, or where there is no place for it.
pub fn plan(key: &Key, live: &Value, reason: Reason, message: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if read::is_deleted(live) {
        return plan;
    }
    match key.kind {
        Kind::Job => job(&mut plan, live, reason, message),
        Kind::Inference | Kind::Model => status(&mut plan, live, reason, message, now),
        Kind::ProfilingExperiment | Kind::Trial => profiling(&mut plan, live, reason, message, now),
        // What is finished stays so.
        Kind::ModelVersion if !is_finished(live) => status(&mut plan, live, reason, message, now),
        _ => {}
    }
    plan
}

fn is_finished(version: &Value) -> bool {
    matches!(read::text(version, "/status/imageBuildPhase"), "ImageBuildSucceeded" | "ImageBuildFailed")
}

/// Other parts of the status stay as they were told last.
fn status(plan: &mut Plan, live: &Value, reason: Reason, message: &str, now: Timestamp) {
    let mut status = if live["status"].is_object() { live["status"].clone() } else { json!({}) };
    let Ok(mut list) = serde_json::from_value::<Vec<Condition>>(read_list(&status["conditions"])) else { return };
    let is_told = conditions::find(&list, conditions::READY)
        .is_some_and(|ready| ready.reason == reason.as_str() && ready.status == State::False.as_str());
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    conditions::set(&mut list, conditions::READY, State::False, reason, message, generation, now);
    status["conditions"] = serde_json::to_value(&list).expect("conditions are plain data");
    manifest::ensure_status(plan, live, &status);
    if !is_told {
        plan.tell(live, true, reason, message);
    }
}

/// The same on an experiment or a trial that is not over.
fn profiling(plan: &mut Plan, live: &Value, reason: Reason, message: &str, now: Timestamp) {
    let mut status = if live["status"].is_object() { live["status"].clone() } else { json!({}) };
    let Ok(mut list) = serde_json::from_value::<Vec<ProfilingCondition>>(read_list(&status["conditions"])) else {
        return;
    };
    if profiling_conditions::is_over(&list) {
        return;
    }
    let is_told = list.iter().any(|ready| ready.type_ == conditions::READY && ready.reason == reason.as_str());
    profiling_conditions::set(&mut list, conditions::READY, State::False, reason, message, now);
    status["conditions"] = serde_json::to_value(&list).expect("conditions are plain data");
    manifest::ensure_status(plan, live, &status);
    if !is_told {
        plan.tell(live, true, reason, message);
    }
}

fn read_list(value: &Value) -> Value {
    if value.is_array() { value.clone() } else { json!([]) }
}

/// A job that has succeeded says why nothing comes of it.
fn job(plan: &mut Plan, job: &Value, reason: Reason, message: &str) {
    let is_open = read::annotation(job, labels::job::MODEL).is_some()
        && read::annotation(job, labels::job::PUBLISHED).is_none()
        && read::condition_holds(job, "Complete");
    let note = conditions::shortened(&format!("{reason}: {message}"), 1_024);
    if !is_open || read::annotation(job, labels::job::NOT_PUBLISHED) == Some(&note) {
        return;
    }
    let annotations = json!({ labels::job::NOT_PUBLISHED: note });
    plan.actions.extend(manifest::patch_metadata(job, json!({ "annotations": annotations })));
    plan.tell(job, true, reason, message);
}

#[cfg(test)]
mod tests {
    use modelway_plan::Action;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn object(kind: Kind, status: &Value) -> Value {
        json!({"apiVersion": kind.api_version(), "kind": kind.as_str(),
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "generation": 3}, "status": status})
    }

    fn told(live: &Value) -> Plan {
        plan(&Key::of(live).unwrap(), live, Reason::AccessDenied, "cannot list pods", NOW)
    }

    #[test]
    fn the_condition_is_set_once_and_the_rest_of_the_status_stays() {
        let mut live = object(Kind::Inference, &json!({"split": "90/10"}));
        let plan = told(&live);
        let [Action::Status(written), Action::Event(event)] = &plan.actions[..] else { panic!("{plan:?}") };
        assert_eq!((event.reason, event.warning), (Reason::AccessDenied, true));
        assert_eq!(written["status"]["split"], "90/10");
        let ready = read::condition(written, "Ready").unwrap();
        assert_eq!((&ready["status"], &ready["message"]), (&json!("False"), &json!("cannot list pods")));
        live["status"] = written["status"].clone();
        assert_eq!(told(&live), Plan::default());
    }

    #[test]
    fn what_is_finished_or_leaving_is_left_alone() {
        assert_eq!(
            told(&object(Kind::ModelVersion, &json!({"imageBuildPhase": "ImageBuildSucceeded"}))),
            Plan::default()
        );
        assert!(!told(&object(Kind::ModelVersion, &json!({"imageBuildPhase": "ImageBuilding"}))).actions.is_empty());
        let mut leaving = object(Kind::Model, &Value::Null);
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(told(&leaving), Plan::default());
    }

    #[test]
    fn an_experiment_is_told_first_and_keeps_its_state() {
        let created = json!({"type": "Created", "status": "True", "reason": "Accepted", "message": ""});
        let mut live = object(Kind::ProfilingExperiment, &json!({"conditions": [created], "trialsTotal": 2}));
        let plan = told(&live);
        let [Action::Status(written), Action::Event(_)] = &plan.actions[..] else { panic!("{plan:?}") };
        let types: Vec<&str> = read::items(written, "/status/conditions").map(|one| read::text(one, "/type")).collect();
        assert_eq!((types, &written["status"]["trialsTotal"]), (vec!["Ready", "Created"], &json!(2)));
        live["status"] = written["status"].clone();
        assert_eq!(told(&live), Plan::default());
        let over = json!({"type": "Succeeded", "status": "True", "reason": "Measured", "message": ""});
        assert_eq!(told(&object(Kind::Trial, &json!({"conditions": [over]}))), Plan::default());
    }

    #[test]
    fn a_job_is_told_in_its_annotation_after_it_succeeded() {
        let mut job = object(Kind::Job, &Value::Null);
        job["metadata"]["annotations"] = json!({labels::job::MODEL: "m"});
        assert_eq!(told(&job), Plan::default());
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let plan = told(&job);
        let [Action::Patch { patch, .. }, Action::Event(_)] = &plan.actions[..] else { panic!("{plan:?}") };
        let note = patch["metadata"]["annotations"][labels::job::NOT_PUBLISHED].clone();
        assert_eq!(note, "AccessDenied: cannot list pods");
        job["metadata"]["annotations"][labels::job::NOT_PUBLISHED] = note;
        assert_eq!(told(&job), Plan::default());
    }
}
