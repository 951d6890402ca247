//! Experiments: a live predictor gets a better spec, a trial stands alone, and nothing is left of either.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use modelway_api::profiling_conditions::ProfilingCondition;
use modelway_api::{Inference, ProfilingExperiment, Trial};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::support::Flow;

const JOBS: &str = include_str!("../../../examples/digits/manifests/jobs.yaml");
const INFERENCE: &str = include_str!("../../../examples/digits/manifests/inference.yaml");
const EXPERIMENT: &str = include_str!("../../../examples/profiling/experiment.yaml");
const TRIAL: &str = include_str!("../../../examples/profiling/trial.yaml");
const MORPHLING: &str = include_str!("../../../examples/profiling/morphling.yaml");
/// What a deletion takes at most.
const GONE: Duration = Duration::from_mins(2);

/// Tunes a predictor that serves: the recommendation, the report, and the note on the Inference are there, and the
/// predictor has not been touched.
pub async fn a_live_predictor_gets_a_better_spec(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(JOBS).await?;
    flow.apply(INFERENCE).await?;
    flow.ready("digits").await?;
    let before: Deployment = flow.api().get("digits-v2").await?;
    // Shorter than the example: what is measured does not matter here.
    let quick = EXPERIMENT.replace("window: 4s", "window: 1s").replace("window: 6s", "window: 1s");
    let quick = quick.replace("warmup: 1s", "warmup: 100ms").replace("maxNumTrials: 8", "maxNumTrials: 4");
    flow.apply(&quick).await?;
    let experiment =
        flow.until("digits-v2", |experiment: &ProfilingExperiment| is_over(conditions(experiment))).await?;
    let status = experiment.status.context("no status")?;
    let types: Vec<&str> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    ensure!(types == ["Ready", "Created", "Running", "Succeeded"], "{:#?}", status.conditions);
    // The best two are measured again, what runs now, and whatever looks best after that.
    ensure!(status.candidates == Some(12) && (5..=9).contains(&status.trials_succeeded), "{status:#?}");
    let found = status.recommendation.context("no recommendation")?;
    ensure!(found.parameters.len() == 3 && found.gain.is_some() && !found.baseline.is_empty(), "{found:#?}");

    let inference: Inference = flow.api::<Inference>().get("digits").await?;
    let annotations = inference.metadata.annotations.unwrap_or_default();
    ensure!(annotations.get("modelway.io/recommendation") == found.patch.as_ref(), "{annotations:?}");
    let after: Deployment = flow.api().get("digits-v2").await?;
    ensure!(before.metadata.generation == after.metadata.generation, "the predictor was changed");
    let report: ConfigMap = flow.api::<ConfigMap>().get("digits-v2-report").await?;
    let data = report.data.unwrap_or_default();
    let record: Value = serde_json::from_str(data.get("record.json").context("no record in the report")?)?;
    let recorded = record["trials"].as_array().map_or(0, Vec::len);
    ensure!(i32::try_from(recorded)? == status.trials_total, "{recorded} trials: {record:#}");
    nothing_is_left(flow).await
}

/// A Morphling-shaped Trial with a client of its own.
pub async fn a_trial_stands_alone(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(TRIAL).await?;
    let trial = flow
        .until("alone", |trial: &Trial| is_over(trial.status.as_ref().map(|status| &status.conditions[..])))
        .await?;
    let status = trial.status.context("no status")?;
    let names: Vec<&str> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    ensure!(names == ["Ready", "Created", "Pending", "Running", "Succeeded"], "{status:#?}");
    let result = status.trial_result.clone().context("no result")?;
    let last = result.objective_metrics_observed.last().context("no metric")?;
    ensure!((last.name.as_str(), last.value.as_str()) == ("qps", "25"), "{result:#?}");
    nothing_is_left(flow).await
}

/// An experiment in Morphling's shape: every candidate once, and the status as its users read it.
pub async fn a_morphling_experiment_runs_as_it_is(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(MORPHLING).await?;
    let over = |experiment: &ProfilingExperiment| is_over(conditions(experiment));
    let status = flow.until("morphling-grid", over).await?.status.context("no status")?;
    ensure!(status.conditions.last().is_some_and(|last| last.type_ == "Succeeded"), "{status:#?}");
    let names: Vec<String> = (0..4).map(|index| format!("morphling-grid-{index}")).collect();
    ensure!(status.succeeded_trial_list == names && status.trials_total == 4, "{status:#?}");
    let best = status.current_optimal_trial.context("no optimum")?;
    let batch = best.tunable_parameters.iter().find(|value| value.name == "BATCH_SIZE").context("no BATCH_SIZE")?;
    let last = best.objective_metrics_observed.last().context("no metric")?;
    ensure!((batch.value.as_str(), last.name.as_str(), last.value.as_str()) == ("2", "qps", "2.5"), "{best:#?}");
    nothing_is_left(flow).await
}

/// Deleted in the middle of a trial: the trials and all that they started go with it.
pub async fn a_deleted_experiment_leaves_nothing(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(&never_ready("deleted", "parallelism: 2")?).await?;
    flow.until("deleted-1-deployment", |deployment: &Deployment| {
        deployment.status.as_ref().and_then(|status| status.unavailable_replicas) == Some(1)
    })
    .await?;
    flow.api::<ProfilingExperiment>().delete("deleted", &DeleteParams::default()).await?;
    until_none::<Trial>(flow, "").await?;
    nothing_is_left(flow).await
}

/// What runs when the time is spent is ended, and so is the experiment.
pub async fn an_experiment_keeps_to_its_time(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(&never_ready("late", "budget: {duration: 4s}")?).await?;
    let experiment = flow.until("late", |experiment: &ProfilingExperiment| is_over(conditions(experiment))).await?;
    let status = experiment.status.context("no status")?;
    ensure!(status.killed_trial_list == ["late-0"] && status.trials_total == 1, "{status:#?}");
    let last = status.conditions.last().context("no condition")?;
    ensure!((last.type_.as_str(), last.reason.as_str()) == ("Failed", "NothingMeasured"), "{last:#?}");
    ensure!(last.message.contains("budget.duration"), "{last:#?}");
    nothing_is_left(flow).await
}

/// The cheapest number of GPUs that is enough, where a node has two: more find no node, and are no answer.
pub async fn gpus_are_candidates_with_a_price(flow: &Flow) -> anyhow::Result<()> {
    let (_, spec) = TRIAL.split_once("  servicePodTemplate:").context("the example has another shape")?;
    let spec = spec
        .replace("${WORKERS}5", "${NVIDIA_COM_GPU}0")
        .replace("serviceProgressDeadline: 60", "serviceProgressDeadline: 20");
    let experiment = format!(
        r#"
apiVersion: morphling.kubedl.io/v1alpha1
kind: ProfilingExperiment
metadata: {{name: gpus}}
spec:
  algorithm: {{algorithmName: grid}}
  objective:
    type: minimize
    objectiveMetricName: cost
    constraints: [{{metric: qps, min: "15"}}]
    cost: {{perHour: {{nvidia.com/gpu: "2.5"}}, unit: EUR}}
  tunableParameters:
    - category: resource
      parameters: [{{name: nvidia.com/gpu, parameterType: discrete, feasibleSpace: {{list: ["1", "2", "8"]}}}}]
  servicePodTemplate:{spec}"#
    );
    flow.apply(&experiment).await?;
    let experiment = flow.until("gpus", |experiment: &ProfilingExperiment| is_over(conditions(experiment))).await?;
    let status = experiment.status.context("no status")?;
    let found = status.recommendation.clone().context(format!("no recommendation: {status:#?}"))?;
    ensure!(found.parameters[0].value == "2" && found.cost.as_deref() == Some("5"), "{found:#?}");
    if status.left_out == Some(1) {
        // The controller may look at nodes: it has not even tried the one that has no place.
        let most = status.node_sizes.iter().filter_map(|size| size.get("nvidia.com/gpu"));
        ensure!(most.eq(["2"]) && status.candidates == Some(2) && status.trials_total == 2, "{status:#?}");
        return nothing_is_left(flow).await;
    }
    let refused: Trial = flow.api::<Trial>().get("gpus-2").await?;
    let outcome = refused.status.and_then(|status| status.outcome).context("no outcome")?;
    ensure!(outcome.reason == "Unschedulable" && outcome.message.contains("nvidia.com/gpu"), "{outcome:#?}");
    nothing_is_left(flow).await
}

/// Kinds of machine with a price each: the cheaper one does not exist, and is no answer.
pub async fn instance_types_are_candidates_with_a_price(flow: &Flow) -> anyhow::Result<()> {
    let (_, spec) = TRIAL.split_once("  servicePodTemplate:").context("the example has another shape")?;
    let spec = spec
        .replace("${WORKERS}5", "${NVIDIA_COM_GPU}0")
        .replace("serviceProgressDeadline: 60", "serviceProgressDeadline: 20");
    let experiment = format!(
        r#"
apiVersion: morphling.kubedl.io/v1alpha1
kind: ProfilingExperiment
metadata: {{name: instances}}
spec:
  algorithm: {{algorithmName: grid}}
  objective:
    type: minimize
    objectiveMetricName: cost
    constraints: [{{metric: qps, min: "15"}}]
    cost: {{perHour: {{nvidia.com/gpu: "0.5"}}, instanceTypes: {{absent: "1", two-gpus: "4"}}, unit: EUR}}
  tunableParameters:
    - category: resource
      parameters: [{{name: nvidia.com/gpu, parameterType: discrete, feasibleSpace: {{list: ["2"]}}}}]
    - category: nodeSelector
      parameters:
        - name: node.kubernetes.io/instance-type
          parameterType: categorical
          feasibleSpace: {{list: [absent, two-gpus]}}
  servicePodTemplate:{spec}"#
    );
    flow.apply(&experiment).await?;
    let experiment =
        flow.until("instances", |experiment: &ProfilingExperiment| is_over(conditions(experiment))).await?;
    let status = experiment.status.context("no status")?;
    let found = status.recommendation.clone().context(format!("no recommendation: {status:#?}"))?;
    ensure!(found.parameters[1].value == "two-gpus" && found.cost.as_deref() == Some("5"), "{found:#?}");
    let patch = found.patch.context("no patch")?;
    ensure!(patch.contains(r#""nodeSelector":{"node.kubernetes.io/instance-type":"two-gpus"}"#), "{patch}");
    let refused: Trial = flow.api::<Trial>().get("instances-0").await?;
    let outcome = refused.status.and_then(|status| status.outcome).context("no outcome")?;
    ensure!(outcome.reason == "Unschedulable", "{outcome:#?}");
    nothing_is_left(flow).await
}

/// An experiment whose service is never ready.
fn never_ready(name: &str, more: &str) -> anyhow::Result<String> {
    let probe = "readinessProbe: {exec: {command: ['false']}, periodSeconds: 1}";
    let trial = TRIAL.replace("ports: [{containerPort: 8500}]", probe);
    let (_, spec) = trial.split_once("  servicePodTemplate:").context("the example has another shape")?;
    Ok(format!(
        r#"
apiVersion: morphling.kubedl.io/v1alpha1
kind: ProfilingExperiment
metadata: {{name: {name}}}
spec:
  objective: {{type: maximize, objectiveMetricName: qps}}
  {more}
  tunableParameters:
    - category: env
      parameters: [{{name: workers, parameterType: discrete, feasibleSpace: {{list: ["1", "2", "4"]}}}}]
  servicePodTemplate:{spec}"#
    ))
}

fn conditions(experiment: &ProfilingExperiment) -> Option<&[ProfilingCondition]> {
    experiment.status.as_ref().map(|status| &status.conditions[..])
}

fn is_over(conditions: Option<&[ProfilingCondition]>) -> bool {
    conditions.is_some_and(modelway_api::profiling_conditions::is_over)
}

/// No object of any trial is in the namespace.
async fn nothing_is_left(flow: &Flow) -> anyhow::Result<()> {
    until_none::<Deployment>(flow, "modelway.io/trial").await?;
    until_none::<Service>(flow, "modelway.io/trial").await?;
    until_none::<Job>(flow, "modelway.io/trial").await?;
    until_none::<Pod>(flow, "modelway.io/trial").await
}

async fn until_none<K>(flow: &Flow, label: &str) -> anyhow::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = flow.api();
    let deadline = tokio::time::Instant::now() + GONE;
    loop {
        let left = api.list(&ListParams::default().labels(label)).await?.items;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < deadline, "still there: {left:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
