//! What is kept of an object in memory: what planners read, and nothing of objects that none of them looks at.

use modelway_api::labels;
use modelway_plan::{Kind, json as read};
use serde_json::{Map, Value, json};

use crate::kinds::{controller_of, is_training};

/// Annotation of `kubectl apply`, as large as the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether planners read more of the kind than its metadata.
pub fn is_metadata_enough(kind: Kind) -> bool {
    matches!(kind, Kind::Namespace | Kind::PersistentVolumeClaim)
}

/// The object as it is kept; `None` when no planner looks at it.
pub fn trim(kind: Kind, mut object: Value) -> Option<Value> {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }
    match kind {
        Kind::Pod => return pod(object),
        Kind::Job if !is_training(&object) && !is_of(&object, &[Kind::ModelVersion, Kind::Trial]) => {
            // Only whether it has ended is asked of other jobs.
            keep(&mut object, &["status"]);
        }
        // Somebody else's: only that the name is taken matters.
        Kind::Deployment | Kind::Service if !is_of(&object, &[Kind::Inference, Kind::Trial]) => keep(&mut object, &[]),
        Kind::Event => keep(&mut object, &["involvedObject", "message", "lastTimestamp"]),
        _ if is_metadata_enough(kind) => keep(&mut object, &[]),
        _ => {}
    }
    Some(object)
}

/// Whether the object's controller is of one of these kinds.
fn is_of(object: &Value, kinds: &[Kind]) -> bool {
    kinds.iter().any(|kind| controller_of(object, *kind).is_some())
}

/// A pod of a job, an Inference or a Trial. Where the output of a job lies is read from its pod's spec.
fn pod(mut pod: Value) -> Option<Value> {
    let is_of_job = controller_of(&pod, Kind::Job).is_some();
    let is_under_test = read::label(&pod, labels::TRIAL_NAME).is_some();
    if !is_of_job && !is_under_test && read::label(&pod, labels::INFERENCE_NAME).is_none() {
        return None;
    }
    let node = pod.pointer_mut("/spec/nodeName").map(Value::take);
    let status = pod_status(&mut pod["status"]);
    if is_of_job {
        keep(&mut pod, &["spec"]);
    } else {
        keep(&mut pod, &[]);
        // Where a measurement was made belongs to it.
        if let Some(node) = node.filter(|_| is_under_test) {
            pod["spec"] = json!({ "nodeName": node });
        }
    }
    pod["status"] = status;
    Some(pod)
}

fn pod_status(status: &mut Value) -> Value {
    let mut kept = taken(status, &["phase", "reason", "message", "podIP", "conditions"]);
    for list in ["initContainerStatuses", "containerStatuses"] {
        let statuses = status[list].as_array_mut().into_iter().flatten();
        let fields = ["name", "ready", "restartCount", "state", "lastState"];
        let statuses: Vec<Value> = statuses.map(|status| taken(status, &fields)).collect();
        if !statuses.is_empty() {
            kept[list] = statuses.into();
        }
    }
    kept
}

/// Those fields, moved out of the object.
fn taken(object: &mut Value, fields: &[&str]) -> Value {
    let mut kept = Map::new();
    for &field in fields {
        let value = object.get_mut(field).map(Value::take).filter(|value| !value.is_null());
        kept.extend(value.map(|value| (field.to_owned(), value)));
    }
    Value::Object(kept)
}

/// Drops everything but type, metadata and those fields.
fn keep(object: &mut Value, fields: &[&str]) {
    let all: Vec<&str> = ["apiVersion", "kind", "metadata"].iter().chain(fields).copied().collect();
    *object = if object.is_object() { taken(object, &all) } else { json!({}) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod_of(owner: &Value, labels: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": labels, "ownerReferences": owner, "managedFields": [{"manager": "x"}]},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "hostIP": "10.0.0.1", "containerStatuses": [
                {"name": "c", "image": "x", "imageID": "y", "restartCount": 1, "state": {"running": {}}}]}})
    }

    #[test]
    fn pods_of_others_are_not_kept() {
        let owner = json!([{"kind": "ReplicaSet", "controller": true, "name": "r"}]);
        assert_eq!(trim(Kind::Pod, pod_of(&owner, &json!({"app": "x"}))), None);
    }

    #[test]
    fn a_predictors_pod_keeps_its_state_and_no_spec() {
        let owner = json!([{"kind": "ReplicaSet", "controller": true, "name": "r"}]);
        let kept = trim(Kind::Pod, pod_of(&owner, &json!({"kubedl.io/inference-name": "x"}))).unwrap();
        assert!(kept["spec"].is_null() && kept["metadata"]["managedFields"].is_null());
        assert_eq!(kept["metadata"]["labels"]["kubedl.io/inference-name"], "x");
        let status = json!({"phase": "Running",
            "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"running": {}}}]});
        assert_eq!(kept["status"], status);
    }

    #[test]
    fn a_pod_under_test_keeps_its_node() {
        let owner = json!([{"kind": "ReplicaSet", "controller": true, "name": "r"}]);
        let mut pod = pod_of(&owner, &json!({"modelway.io/trial": "t"}));
        pod["spec"]["nodeName"] = "a".into();
        let kept = trim(Kind::Pod, pod).unwrap();
        assert_eq!(kept["spec"], json!({"nodeName": "a"}));
        assert_eq!(kept["status"]["containerStatuses"][0]["restartCount"], 1);
    }

    #[test]
    fn a_jobs_pod_keeps_its_spec() {
        let owner = json!([{"kind": "Job", "controller": true, "name": "j"}]);
        let kept = trim(Kind::Pod, pod_of(&owner, &Value::Null)).unwrap();
        assert_eq!(kept["spec"]["containers"][0]["name"], "c");
    }

    #[test]
    fn somebody_elses_deployment_is_a_name() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "annotations": {LAST_APPLIED: "{}", "a": "b"}},
            "spec": {"replicas": 1}, "status": {}});
        let kept = trim(Kind::Deployment, deployment.clone()).unwrap();
        assert_eq!(
            kept,
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "annotations": {"a": "b"}}})
        );
        let mut ours = deployment;
        ours["metadata"]["ownerReferences"] = json!([{"kind": "Inference", "controller": true, "name": "i"}]);
        assert_eq!(trim(Kind::Deployment, ours).unwrap()["spec"]["replicas"], 1);
    }
}
