//! Hands that play the workloads of trials: services that start or do not, clients that report or do not.

use std::time::Duration;

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::simulation::{NAMESPACE, Simulation};

/// What becomes of a trial's service and client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// The client reports this rate.
    Rate(f64),
    /// The client says that no rate meets the constraints, with this p95.
    Unmet(f64),
    /// The service is killed for memory at its start.
    OutOfMemory,
    /// It ends again and again.
    Crash,
    /// It ends under load.
    CrashUnderLoad,
    /// No node has room.
    Unschedulable,
    /// Its image is not there.
    NoImage,
    /// The node cannot run it at all.
    NeedsContainers,
    /// No quota has room.
    Quota,
    /// It runs and is never ready.
    NeverReady,
    /// Its pod goes away under load.
    Lost,
    /// The client ends without a word.
    Silent,
    /// The client fails.
    ClientFails,
    /// The client never ends.
    ClientHangs,
    /// The client says another metric.
    OtherMetric,
}

/// Plays the workloads once; says whether anything happened.
pub fn play(simulation: &mut Simulation, fate: &impl Fn(&Value) -> Fate) -> bool {
    let mut happened = sweep(simulation);
    for name in simulation.names(Kind::Trial) {
        let trial = simulation.get(Kind::Trial, &name).unwrap().clone();
        let fate = fate(&trial);
        happened |= start(simulation, &name, fate) | run(simulation, &name, fate);
    }
    happened
}

/// Settles and plays until all is quiet, a second at a time.
pub fn run_all(simulation: &mut Simulation, fate: impl Fn(&Value) -> Fate) {
    let mut quiet = 0;
    for _ in 0..4_000 {
        simulation.settle();
        quiet = if play(simulation, &fate) { 0 } else { quiet + 1 };
        simulation.pass(Duration::from_secs(if quiet > 3 { 60 } else { 1 }));
        if quiet > 20 {
            return;
        }
    }
    panic!("the trials do not come to rest");
}

/// Pods whose workload is gone go, too.
fn sweep(simulation: &mut Simulation) -> bool {
    let is_gone = |pod: &Value| {
        let deployment =
            read::label(pod, "deployment").is_some_and(|name| simulation.get(Kind::Deployment, name).is_none());
        let owner = read::text(pod, "/metadata/ownerReferences/0/name");
        deployment || (!owner.is_empty() && simulation.get(Kind::Job, owner).is_none())
    };
    let trials = simulation.world.list(Kind::Pod, NAMESPACE).filter(|pod| read::label(pod, "trial").is_some());
    let gone: Vec<_> = trials.filter(|pod| is_gone(pod)).filter_map(modelway_plan::Key::of).collect();
    for key in &gone {
        simulation.world.remove(key);
    }
    !gone.is_empty()
}

fn pod(name: &str, deployment: &Value, status: &Value) -> Value {
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": "node-1"}, "status": status})
}

fn start(simulation: &mut Simulation, trial: &str, fate: Fate) -> bool {
    let name = format!("{trial}-deployment");
    let pod_name = format!("{name}-x");
    let Some(deployment) = simulation.get(Kind::Deployment, &name).cloned() else { return false };
    if simulation.get(Kind::Pod, &pod_name).is_some() || fate == Fate::Quota && !deployment["status"].is_null() {
        return false;
    }
    if fate == Fate::Quota {
        let message = "pods \"x\" is forbidden: exceeded quota: q, requested: limits.cpu=8, used: limits.cpu=0, limited: limits.cpu=4";
        simulation.edit(Kind::Deployment, &name, |deployment| {
            deployment["status"] = json!({"conditions": [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]});
        });
        return true;
    }
    let ended = |reason: &str, code: i64| json!({"exitCode": code, "reason": reason, "message": "the last line"});
    let container = |restarts: i64, state: Value, last: Value| json!({"name": "s", "restartCount": restarts, "state": state, "lastState": last});
    let status = match fate {
        Fate::OutOfMemory => {
            json!({"containerStatuses": [container(1, json!({"running": {}}), json!({"terminated": ended("OOMKilled", 137)}))]})
        }
        Fate::Crash => {
            json!({"containerStatuses": [container(2, json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"terminated": ended("Error", 1)}))]})
        }
        Fate::Unschedulable => {
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]})
        }
        Fate::NoImage => {
            json!({"containerStatuses": [container(0, json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}), json!({}))]})
        }
        Fate::NeedsContainers => {
            json!({"containerStatuses": [container(0, json!({"waiting": {"reason": "NeedsContainers", "message": "no runtime"}}), json!({}))]})
        }
        Fate::NeverReady => {
            json!({"phase": "Running", "containerStatuses": [container(0, json!({"running": {}}), json!({}))]})
        }
        _ => json!({"phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"},
            {"type": "modelway.io/LimitsEnforced", "status": "True", "reason": "CgroupV2", "message": "cpu 1 by cgroup v2"}]}),
    };
    simulation.put(pod(&pod_name, &deployment, &status));
    true
}

fn run(simulation: &mut Simulation, trial: &str, fate: Fate) -> bool {
    let job = format!("{trial}-client-job");
    let is_open = simulation.get(Kind::Job, &job).is_some_and(|job| job["status"].is_null());
    if !is_open {
        return false;
    }
    let service = format!("{trial}-deployment-x");
    let message = match fate {
        Fate::CrashUnderLoad => {
            simulation.edit(Kind::Pod, &service, |pod| {
                pod["status"]["containerStatuses"] = json!([{"name": "s", "restartCount": 1, "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 139, "reason": "Error"}}}]);
            });
            return true;
        }
        Fate::Lost => {
            let key = modelway_plan::Key::new(Kind::Pod, NAMESPACE, service);
            return simulation.world.remove(&key).is_some();
        }
        Fate::ClientHangs => {
            simulation.end(&job, false, "");
            simulation.edit(Kind::Job, &job, |job| {
                job["status"]["conditions"][0]["reason"] = "DeadlineExceeded".into();
            });
            label(simulation, &job);
            return true;
        }
        Fate::Rate(rate) => json!({"state": "measured", "metrics": {"rate": rate, "qps": rate, "latency.p95": 0.01}, "variances": {"rate": 0.5}}).to_string(),
        Fate::Unmet(p95) => json!({"state": "unmet", "message": "one user alone misses them", "metrics": {"latency.p95": p95}}).to_string(),
        Fate::OtherMetric => json!({"metrics": {"accuracy": 0.9}}).to_string(),
        Fate::ClientFails => "Traceback: no module named requests".to_owned(),
        _ => String::new(),
    };
    simulation.end(&job, fate != Fate::ClientFails, &message);
    label(simulation, &job);
    true
}

/// The pod of a Job has its template's labels.
fn label(simulation: &mut Simulation, job: &str) {
    let labels = simulation.get(Kind::Job, job).unwrap()["spec"]["template"]["metadata"]["labels"].clone();
    simulation.edit(Kind::Pod, &format!("{job}-pod"), |pod| pod["metadata"]["labels"] = labels);
}
