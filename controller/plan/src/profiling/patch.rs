//! A recommendation as a change that can be made.

use modelway_api::{
    labels,
    profiling_experiment::{Apply, InferenceReference, ProfilingExperimentSpec},
    trial::ParameterAssignment,
};
use modelway_tune::{
    experiment::{End, Verdict},
    space::Space,
};
use serde_json::{Map, Value, json};

use super::{space, target, template};
use crate::{
    context::Context,
    json as read,
    manifest::patch_metadata,
    mount::{AUTH_VOLUME, MODEL_PATH_VARIABLE, MODEL_VOLUME},
    plan::Action,
    world::Kind,
};

/// A patch, and how to use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The values that it sets.
    pub values: Vec<ParameterAssignment>,
    /// The patch as JSON.
    pub patch: String,
    /// Command line that makes the change.
    pub command: String,
    /// Command line that takes it back.
    pub undo: Option<String>,
}

/// The change that an experiment recommends; `None` when it recommends nothing.
pub fn change(
    cx: &Context,
    experiment: &Value,
    spec: &ProfilingExperimentSpec,
    pods: &Value,
    space: &Space,
    end: &End,
) -> Option<Change> {
    let Verdict::Recommended(found) = &end.verdict else { return None };
    let values = space::assignments(spec, space, found.candidate);
    match &spec.inference_ref {
        Some(reference) => on_inference(cx, experiment, reference, pods, values),
        None => Some(on_deployment(pods, values)),
    }
}

/// A strategic merge patch of any Deployment of these pods.
fn on_deployment(pods: &Value, values: Vec<ParameterAssignment>) -> Change {
    let mut changed = pods.clone();
    template::put(&mut changed, &values);
    let containers = read::items(&changed, "/spec/containers").zip(read::items(pods, "/spec/containers"));
    let parts: Vec<Value> = containers.filter_map(|(new, old)| part(new, old)).collect();
    let mut spec = Map::new();
    if !parts.is_empty() {
        spec.insert("containers".to_owned(), parts.into());
    }
    if changed["spec"]["nodeSelector"] != pods["spec"]["nodeSelector"] {
        spec.insert("nodeSelector".to_owned(), changed["spec"]["nodeSelector"].clone());
    }
    let patch = json!({ "spec": { "template": { "spec": spec } } }).to_string();
    let command = format!("kubectl patch deployment NAME --patch {}", quoted(&patch));
    Change { values, patch, command, undo: Some("kubectl rollout undo deployment NAME".to_owned()) }
}

/// What of a container changes.
fn part(new: &Value, old: &Value) -> Option<Value> {
    let mut part = Map::new();
    for field in ["command", "args", "env", "resources"] {
        if new[field] != old[field] {
            part.insert(field.to_owned(), new[field].clone());
        }
    }
    if part.is_empty() {
        return None;
    }
    part.insert("name".to_owned(), new["name"].clone());
    Some(part.into())
}

/// A JSON patch of the predictor's template.
fn on_inference(
    cx: &Context,
    experiment: &Value,
    reference: &InferenceReference,
    pods: &Value,
    values: Vec<ParameterAssignment>,
) -> Option<Change> {
    let namespace = read::text(experiment, "/metadata/namespace");
    let (position, name) = target::predictor(cx, namespace, reference).ok()?;
    let live = cx.world.get(Kind::Inference, namespace, &reference.name)?;
    let own = live.pointer(&format!("/spec/predictors/{position}/template"));
    let mut changed = own.cloned().unwrap_or_else(|| without_model(pods));
    template::put(&mut changed, &values);
    let path = format!("/spec/predictors/{position}");
    let test = json!({ "op": "test", "path": format!("{path}/name"), "value": name });
    let set = json!({ "op": "add", "path": format!("{path}/template"), "value": changed });
    let undo = match own {
        Some(own) => json!([test, { "op": "add", "path": format!("{path}/template"), "value": own }]),
        None => json!([test, { "op": "remove", "path": format!("{path}/template") }]),
    };
    let patch = json!([test, set]).to_string();
    let line = |patch: &str| {
        format!(
            "kubectl patch inference {} --namespace {namespace} --type json --patch {}",
            reference.name,
            quoted(patch)
        )
    };
    Some(Change { values, command: line(&patch), undo: Some(line(&undo.to_string())), patch })
}

/// The pods without what the Inference puts in: it puts it in again.
fn without_model(pods: &Value) -> Value {
    let mut pods = pods.clone();
    let injected = [MODEL_VOLUME, AUTH_VOLUME, MODEL_PATH_VARIABLE];
    let is_model = |part: &Value| injected.contains(&read::name_of(part));
    let lists = ["/spec/volumes", "/spec/initContainers"].map(str::to_owned).into_iter();
    let count = read::items(&pods, "/spec/containers").count();
    let inner =
        (0..count).flat_map(|index| ["volumeMounts", "env"].map(|list| format!("/spec/containers/{index}/{list}")));
    for list in lists.chain(inner) {
        if let Some(parts) = pods.pointer_mut(&list).and_then(Value::as_array_mut) {
            parts.retain(|part| !is_model(part));
        }
    }
    tidy(&mut pods);
    pods
}

/// What an API server writes where nothing is said; a patch is shorter without.
const DEFAULTS: [(&str, &str); 7] = [
    ("restartPolicy", "Always"),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "FallbackToLogsOnError"),
    ("apiVersion", "v1"),
    ("scheme", "HTTP"),
];

/// Takes out defaults and what is empty.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(tidy);
            fields.retain(|name, value| {
                let is_empty = value.is_null()
                    || value.as_object().is_some_and(Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty);
                !is_empty && !DEFAULTS.iter().any(|(field, default)| name == field && value == default)
            });
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// In single quotes, for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Puts the change onto the Inference as an annotation, where that is asked for.
pub fn annotate_inference(
    cx: &Context,
    experiment: &Value,
    spec: &ProfilingExperimentSpec,
    change: Option<&Change>,
) -> Option<Action> {
    let reference = spec.inference_ref.as_ref().filter(|reference| reference.apply == Some(Apply::Annotate))?;
    let live = cx.world.get(Kind::Inference, read::text(experiment, "/metadata/namespace"), &reference.name)?;
    let change = change?;
    if read::annotation(live, labels::tuning::RECOMMENDATION) == Some(&change.patch) {
        return None;
    }
    patch_metadata(
        live,
        json!({ "annotations": {
        labels::tuning::RECOMMENDATION: change.patch,
        labels::tuning::RECOMMENDED_BY: read::name(experiment),
    } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_predictors_pod_loses_what_is_put_in_again() {
        let pods = without_model(&json!({"metadata": {"labels": {}}, "spec": {"restartPolicy": "Always",
            "volumes": [{"name": "modelway-model", "image": {}}, {"name": "mine", "emptyDir": {"medium": "Memory"}}],
            "containers": [{"name": "s", "resources": {}, "env": [{"name": "KUBEDL_MODEL_PATH", "value": "/x"}],
                "volumeMounts": [{"name": "modelway-model", "mountPath": "/x"}]}]}}));
        assert_eq!(
            pods,
            json!({"spec": {"volumes": [{"name": "mine", "emptyDir": {"medium": "Memory"}}], "containers": [{"name": "s"}]}})
        );
    }

    #[test]
    fn a_patch_of_a_deployment_has_what_changes_and_no_more() {
        let pods = json!({"spec": {"containers": [{"name": "s", "env": [{"name": "A", "value": "1"}], "args": ["x"]}, {"name": "side"}]}});
        let values = vec![ParameterAssignment {
            name: "a".into(),
            value: "2'".into(),
            category: modelway_api::trial::Category::Env,
        }];
        let change = on_deployment(&pods, values);
        let patch: Value = serde_json::from_str(&change.patch).unwrap();
        let containers = &patch["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0], json!({"env": [{"name": "A", "value": "2'"}], "name": "s"}));
        assert!(change.command.contains(r"2'\''"), "{}", change.command);
    }
}
