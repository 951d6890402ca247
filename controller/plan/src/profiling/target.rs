//! What an experiment tunes: pods that it describes, or those of a predictor.

use modelway_api::{
    Reason,
    inference::InferenceSpec,
    names,
    profiling_experiment::{InferenceReference, ProfilingExperiment, ProfilingExperimentSpec},
};
use serde_json::{Value, json};

use super::{attempts, experiment_status};
use crate::{context::Context, json as read, world::Kind};

/// Prefixes of labels and annotations that say to whom a pod belongs: a pod under test must get none of its traffic.
const OWNERS: [&str; 6] =
    ["kubedl.io/", "model.kubedl.io/", "modelway.io/", "app.kubernetes.io/", "serving.kubedl.io/", "pod-template-hash"];
/// The one of ours that says how a pod is run.
const RUN_AS_PROCESS: &str = "modelway.io/run-as-process";

/// The pods that are tuned: as they were when the first trial was made.
pub fn pods(cx: &Context, experiment: &Value, spec: &ProfilingExperimentSpec) -> Result<Value, (Reason, String)> {
    if let Some(template) = &spec.service_pod_template {
        return Ok(template.get("template").cloned().unwrap_or_else(|| json!({})));
    }
    if let Some(first) = attempts::own(cx.world, experiment).next() {
        return Ok(first["spec"]["servicePodTemplate"]["template"].clone());
    }
    let Some(reference) = &spec.inference_ref else {
        return Err((Reason::InvalidSpec, "either servicePodTemplate or inferenceRef is needed".to_owned()));
    };
    let namespace = read::text(experiment, "/metadata/namespace");
    let (_, predictor) = predictor(cx, namespace, reference)?;
    let deployment = names::predictor(&reference.name, &predictor);
    let Some(live) = cx.world.get(Kind::Deployment, namespace, &deployment) else {
        let message = format!("predictor {predictor} of Inference {} has no Deployment yet", reference.name);
        return Err((Reason::PredictorStarting, message));
    };
    Ok(unowned(live["spec"]["template"].clone()))
}

/// Position and name of the predictor.
pub fn predictor(
    cx: &Context,
    namespace: &str,
    reference: &InferenceReference,
) -> Result<(usize, String), (Reason, String)> {
    let missing = |message: String| (Reason::UnknownPredictor, message);
    let live = cx.world.get(Kind::Inference, namespace, &reference.name);
    let spec = live.and_then(|live| serde_json::from_value::<InferenceSpec>(live["spec"].clone()).ok());
    let spec = spec.ok_or_else(|| missing(format!("there is no Inference {} in the namespace", reference.name)))?;
    let names: Vec<&str> = spec.predictors.iter().map(|predictor| predictor.name.as_str()).collect();
    let wanted = reference.predictor.as_deref().or(names.first().copied()).unwrap_or_default();
    let found = names.iter().position(|name| *name == wanted);
    let found = found.ok_or_else(|| {
        missing(format!("Inference {} has no predictor {wanted}; it has {}", reference.name, names.join(", ")))
    })?;
    Ok((found, wanted.to_owned()))
}

fn unowned(mut template: Value) -> Value {
    for part in ["labels", "annotations"] {
        if let Some(all) = template.pointer_mut(&format!("/metadata/{part}")).and_then(Value::as_object_mut) {
            all.retain(|name, _| name == RUN_AS_PROCESS || !OWNERS.iter().any(|owner| name.starts_with(owner)));
        }
    }
    template
}

/// The experiment on the same Inference that comes before this one.
pub fn first_on_same(cx: &Context, experiment: &Value, spec: &ProfilingExperimentSpec) -> Option<String> {
    let reference = spec.inference_ref.as_ref()?;
    let namespace = read::text(experiment, "/metadata/namespace");
    let order =
        |live: &Value| (read::text(live, "/metadata/creationTimestamp").to_owned(), read::name(live).to_owned());
    let others =
        cx.world.list(Kind::ProfilingExperiment, namespace).filter(|other| read::uid(other) != read::uid(experiment));
    let open = others.filter(|other| {
        let read: Option<ProfilingExperiment> = serde_json::from_value((*other).clone()).ok();
        read.is_some_and(|other| {
            let is_over = other.status.as_ref().is_some_and(experiment_status::is_over);
            !is_over && other.spec.inference_ref.is_some_and(|other| other.name == reference.name)
        })
    });
    // One that has begun goes on, whatever the clock said when it was made.
    let has_begun = |live: &Value| attempts::own(cx.world, live).next().is_some();
    let rank = |live: &Value| (!has_begun(live), order(live));
    let first = open.min_by_key(|other| rank(other))?;
    (rank(first) < rank(experiment)).then(|| read::name(first).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_predictors_pod_belongs_to_nobody() {
        let template = unowned(json!({"metadata": {
            "labels": {"kubedl.io/inference-name": "a", "app": "x", "app.kubernetes.io/component": "predictor"},
            "annotations": {"modelway.io/run-as-process": "true", "modelway.io/template-hash": "h", "note": "n"}}, "spec": {}}));
        assert_eq!(
            template["metadata"],
            json!({"labels": {"app": "x"}, "annotations": {"modelway.io/run-as-process": "true", "note": "n"}})
        );
    }
}
