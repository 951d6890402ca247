//! The status that the API shows for a pod.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::outcome::Outcome;
use super::record::{ContainerRecord, ContainerState, PodRecord, Reason, Termination};
use super::rules::{PodRules, Role, containers};
use crate::limits;

/// Condition types that this node owns; others are kept as they are.
const OWN: [&str; 5] = ["PodScheduled", "Initialized", "ContainersReady", "Ready", "DisruptionTarget"];

/// What `record` looks like in the API, keeping what others wrote into the status of `pod`.
pub fn status(pod: &Pod, rules: &PodRules, record: &PodRecord, address: Option<Ipv4Addr>, now: Timestamp) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let count_of_init = rules.containers.iter().filter(|rules| rules.role != Role::Main).count();
    let initialized = initialized(rules, record);
    let mut statuses: Vec<ContainerStatus> = containers(pod)
        .zip(rules.containers.iter().zip(&record.containers))
        .map(|((_, container), (rules, record))| {
            let image = container.image.clone().unwrap_or_default();
            container_status(pod, &rules.name, image, rules.role, record, initialized)
        })
        .collect();
    let main = statuses.split_off(count_of_init.min(statuses.len()));
    let ip = address.map(|address| address.to_string()).or(before.pod_ip);
    let why = match record.finished() {
        Some(Outcome::Failed { why, .. }) => why.clone(),
        _ => None,
    };
    PodStatus {
        phase: Some(phase(rules, record, initialized).to_owned()),
        conditions: Some(conditions(pod, rules, record, initialized, now)),
        container_statuses: Some(main),
        init_container_statuses: (!statuses.is_empty()).then_some(statuses),
        host_ip: Some("127.0.0.1".to_owned()),
        host_ips: Some(vec![HostIP { ip: "127.0.0.1".to_owned() }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: before.start_time.or(Some(Time(record.since))),
        reason: why.as_ref().map(|why| why.reason.clone()),
        message: why.map(|why| why.message),
        observed_generation: pod.metadata.generation,
        qos_class: before.qos_class,
        ..PodStatus::default()
    }
}

fn initialized(rules: &PodRules, record: &PodRecord) -> bool {
    rules.containers.iter().zip(&record.containers).all(|(rules, record)| match rules.role {
        Role::Init => record.succeeded(),
        Role::Sidecar => record.runs > 0,
        Role::Main => true,
    })
}

fn phase(rules: &PodRules, record: &PodRecord, initialized: bool) -> &'static str {
    let main = || rules.containers.iter().zip(&record.containers).filter(|(rules, _)| rules.role == Role::Main);
    match record.finished() {
        Some(Outcome::Succeeded) => "Succeeded",
        Some(Outcome::Failed { .. }) => "Failed",
        None if initialized && main().all(|(_, record)| record.runs > 0) => "Running",
        None => "Pending",
    }
}

fn container_status(
    pod: &Pod,
    name: &str,
    image: String,
    role: Role,
    record: &ContainerRecord,
    initialized: bool,
) -> ContainerStatus {
    let state = match &record.state {
        ContainerState::Waiting(why) => {
            let initializing = role == Role::Main && !initialized && why.reason == "ContainerCreating";
            let reason = if initializing { "PodInitializing".to_owned() } else { why.reason.clone() };
            let message = Some(why.message.clone()).filter(|message| !message.is_empty());
            ApiState { waiting: Some(ContainerStateWaiting { reason: Some(reason), message }), ..ApiState::default() }
        }
        ContainerState::Running(running) => ApiState {
            running: Some(ContainerStateRunning { started_at: Some(Time(running.since)) }),
            ..ApiState::default()
        },
        ContainerState::Terminated(termination) => terminated(termination),
    };
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    ContainerStatus {
        name: name.to_owned(),
        image,
        image_id: String::new(),
        container_id: (record.runs > 0).then(|| format!("process://{uid}/{name}/{}", record.restarts())),
        ready: record.running().map_or(role == Role::Init && record.succeeded(), |running| running.ready),
        started: Some(record.running().is_some_and(|running| running.started)),
        restart_count: i32::try_from(record.restarts()).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: record.last.as_ref().map(terminated),
        ..ContainerStatus::default()
    }
}

fn terminated(termination: &Termination) -> ApiState {
    ApiState {
        terminated: Some(ContainerStateTerminated {
            exit_code: termination.exit_code,
            signal: termination.signal,
            reason: Some(termination.reason.clone()),
            message: termination.message.clone(),
            started_at: Some(Time(termination.started_at)),
            finished_at: Some(Time(termination.finished_at)),
            container_id: None,
        }),
        ..ApiState::default()
    }
}

fn conditions(pod: &Pod, rules: &PodRules, record: &PodRecord, initialized: bool, now: Timestamp) -> Vec<PodCondition> {
    let before = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let not_ready = not_ready(rules, record);
    let gate = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten()).find(|gate| {
        !before.iter().any(|condition| condition.type_ == gate.condition_type && condition.status == "True")
    });
    let not_ready_by_gate = not_ready.clone().or_else(|| {
        let gate = gate?;
        let message = format!("the status of pod readiness gate {:?} is not \"True\"", gate.condition_type);
        Some(Reason::new("ReadinessGatesNotReady", message))
    });
    let uninitialized =
        (!initialized).then(|| Reason::new("ContainersNotInitialized", "init containers have not completed"));
    let mut wanted = vec![
        ("PodScheduled", None),
        ("Initialized", uninitialized),
        ("ContainersReady", not_ready),
        ("Ready", not_ready_by_gate),
    ]
    .into_iter()
    .map(|(name, why)| condition(name, why.is_none(), why))
    .collect::<Vec<_>>();
    if let Some(Outcome::Failed { disrupted: true, why }) = &record.outcome {
        wanted.push(condition("DisruptionTarget", true, why.clone()));
    }
    wanted.extend(limits(rules, record));
    for condition in &mut wanted {
        condition.observed_generation = pod.metadata.generation;
        let old = before.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status);
        condition.last_transition_time = old.and_then(|old| old.last_transition_time.clone()).or(Some(Time(now)));
    }
    let kept = |old: &PodCondition| {
        let replaced = wanted.iter().any(|condition| condition.type_ == old.type_);
        !replaced && (!OWN.contains(&old.type_.as_str()) || old.type_ == "DisruptionTarget")
    };
    let kept: Vec<PodCondition> = before.into_iter().filter(kept).collect();
    wanted.into_iter().chain(kept).collect()
}

/// Kept from an earlier life until a container starts again.
fn limits(rules: &PodRules, record: &PodRecord) -> Option<PodCondition> {
    let named = rules
        .containers
        .iter()
        .enumerate()
        .filter_map(|(index, rules)| record.limits.get(&index).map(|enforced| (rules.name.as_str(), enforced)));
    let (hold, why) = limits::condition(named)?;
    Some(condition(limits::LIMITS_ENFORCED, hold, Some(why)))
}

fn condition(name: &str, holds: bool, why: Option<Reason>) -> PodCondition {
    PodCondition {
        type_: name.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: why.as_ref().map(|why| why.reason.clone()),
        message: why.map(|why| why.message),
        ..PodCondition::default()
    }
}

/// Why the containers as a whole are not ready.
fn not_ready(rules: &PodRules, record: &PodRecord) -> Option<Reason> {
    match record.finished() {
        Some(Outcome::Succeeded) => return Some(Reason::new("PodCompleted", "")),
        Some(Outcome::Failed { .. }) => return Some(Reason::new("PodFailed", "")),
        None => {}
    }
    let unready: Vec<_> = rules
        .containers
        .iter()
        .zip(&record.containers)
        .filter(|(rules, record)| rules.role != Role::Init && !record.running().is_some_and(|running| running.ready))
        .collect();
    let names: Vec<&str> = unready.iter().map(|(rules, _)| rules.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let known = unready.iter().find_map(|(_, record)| record.running().and_then(|running| running.not_ready.clone()));
    let general =
        || Reason::new("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" ")));
    Some(known.unwrap_or_else(general))
}

/// The merge patch that turns `before` into `after`; `None` when they are equal.
pub fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) => patch.extend(difference(other, value).map(|inner| (key.clone(), inner))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
