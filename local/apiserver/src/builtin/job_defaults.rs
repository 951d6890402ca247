//! Defaults of Jobs, with the selector that ties a Job to its pods.

use serde_json::{Map, Value, json};

use super::{
    defaults::{each, set, within},
    pod_defaults,
};

pub(super) fn job(object: &mut Value) {
    let uid = text(object, "uid");
    let name = text(object, "name");
    within(object, "spec", |spec| {
        numbers(spec);
        set(spec, "completionMode", "NonIndexed");
        set(spec, "suspend", false);
        let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        set(spec, "podReplacementPolicy", replacement);
        failure_policy(spec);
        if let (Some(uid), Some(name)) = (uid, name) {
            tie(spec, &uid, &name);
        }
    });
    pod_defaults::template(object);
    labels_from_template(object);
}

fn text(object: &Value, key: &str) -> Option<String> {
    object["metadata"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// One completion by default; with parallelism alone any success completes the Job.
fn numbers(spec: &mut Map<String, Value>) {
    if spec.get("parallelism").is_none_or(Value::is_null) {
        set(spec, "completions", 1);
        set(spec, "parallelism", 1);
    }
    set(spec, "manualSelector", false);
    let per_index = spec.contains_key("backoffLimitPerIndex");
    set(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
}

fn failure_policy(spec: &mut Map<String, Value>) {
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        each(rule, "onPodConditions", |condition| {
            // The schema's own default is the empty text.
            if condition.get("status").and_then(Value::as_str).is_none_or(str::is_empty) {
                condition.insert("status".to_owned(), "True".into());
            }
        });
    }
}

fn tie(spec: &mut Map<String, Value>, uid: &str, name: &str) {
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let own = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    set(spec, "selector", own.clone());
    if spec["selector"] != own {
        return;
    }
    let Some(template) = spec.get_mut("template").filter(|template| template.is_object()) else { return };
    within(template, "metadata", |metadata| {
        set(metadata, "labels", Map::new());
        let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) else { return };
        for prefix in ["batch.kubernetes.io/", ""] {
            set(labels, &format!("{prefix}controller-uid"), uid);
            set(labels, &format!("{prefix}job-name"), name);
        }
    });
}

/// A Job without labels takes those of its template.
fn labels_from_template(object: &mut Value) {
    let Some(Value::Object(labels)) = object.pointer("/spec/template/metadata/labels").cloned() else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    set(metadata, "labels", labels);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_selects_the_pods_that_carry_its_uid() {
        let mut object = json!({"metadata": {"name": "a", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": []}}}});
        job(&mut object);
        let once = object.clone();
        job(&mut object);
        assert_eq!(object, once);
        let spec = &object["spec"];
        assert_eq!(spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], "u");
        assert_eq!(spec["template"]["metadata"]["labels"]["job-name"], "a");
        assert_eq!(spec["template"]["metadata"]["labels"]["x"], "y");
        assert_eq!((&spec["completions"], &spec["backoffLimit"]), (&json!(1), &json!(6)));
    }

    #[test]
    fn parallelism_alone_leaves_completions_open() {
        let mut object = json!({"spec": {"parallelism": 3}});
        job(&mut object);
        assert!(object["spec"].get("completions").is_none());
        assert!(object["spec"].get("selector").is_none());
    }
}
