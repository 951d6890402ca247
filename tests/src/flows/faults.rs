//! Bad input: a clear answer, and nothing lost.

use anyhow::{Context, ensure};
use kube::api::{Api, ListParams};
use modelway_api::model_version::ImageBuildPhase;
use modelway_api::{Inference, Model, ModelVersion};

use super::load::Load;
use super::support::{Flow, condition};

/// A training job that runs a shell line in its output folder.
fn job(name: &str, line: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{modelway.io/model: faulty}}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {{modelway.io/run-as-process: "true"}}
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: busybox
          command: [sh, -c, 'cd "$OUTPUT_DIR" && {line}']
          env: [{{name: OUTPUT_DIR, value: /output}}]
          volumeMounts: [{{name: output, mountPath: /output}}]
      volumes:
        - name: output
          persistentVolumeClaim: {{claimName: {name}}}
"#
    )
}

/// The job's Event says why there is no version.
pub async fn a_failed_job_is_no_version(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(&job("fails", "echo the disk is made of cheese >&2; exit 3")).await?;
    let message = flow.event("fails", "JobFailed").await?;
    ensure!(message.contains("fails") || message.contains("failed"), "message {message:?}");
    let versions: Api<ModelVersion> = flow.api();
    ensure!(versions.list(&ListParams::default()).await?.items.is_empty(), "a failed job made a version");
    Ok(())
}

/// The build fails for good and says that the output is empty; the Model has no version.
pub async fn an_empty_output_is_no_version(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(&job("empty", "true")).await?;
    let uid = flow
        .until("empty", |job: &k8s_openapi::api::batch::v1::Job| {
            job.status.as_ref().is_some_and(|status| status.succeeded == Some(1))
        })
        .await?
        .metadata
        .uid
        .context("the job has no UID")?;
    let failed = |version: &ModelVersion| {
        version.status.as_ref().and_then(|status| status.image_build_phase.as_ref())
            == Some(&ImageBuildPhase::ImageBuildFailed)
    };
    let version = flow.until(&modelway_api::names::model_version("empty", &uid), failed).await?;
    let message = version.status.and_then(|status| status.message).unwrap_or_default();
    ensure!(message.contains("empty") || message.contains("no file"), "message {message:?}");
    let model: Option<Model> = flow.api::<Model>().get_opt("faulty").await?;
    let latest = model.and_then(|model| model.status).and_then(|status| status.latest_version);
    ensure!(latest.is_none(), "an empty output became the latest version: {latest:?}");
    Ok(())
}

/// Schema errors name field, value and what is allowed; what depends on other objects is a condition.
pub async fn bad_inferences_say_what_is_wrong(flow: &Flow) -> anyhow::Result<()> {
    let inference = |name: &str, predictor: &str| {
        format!(
            "apiVersion: serving.kubedl.io/v1alpha1\nkind: Inference\nmetadata: {{name: {name}}}\nspec:\n  framework: ONNX\n  predictors:\n    - {predictor}\n"
        )
    };
    for (predictor, expected) in [
        ("{name: router, modelVersion: x}", "a predictor may not be called router"),
        ("{name: a, modelVersion: x, trafficWeight: -1}", "trafficWeight"),
        ("{name: a, modelVersion: x, model: {name: m, latest: true}}", "at most one of model and modelVersion"),
        ("{name: a, modelVersion: x, colour: red}", "colour"),
    ] {
        let error = flow.apply(&inference("refused", predictor)).await.err().context("a bad manifest was accepted")?;
        let text = format!("{error:#}");
        ensure!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    flow.apply(&inference("unknown", "{name: a, modelVersion: no-such-version}")).await?;
    flow.apply(&inference("waiting", "{name: a, model: {name: m, job: never}}")).await?;
    flow.apply(&inference("zero", "{name: a, modelVersion: no-such-version, trafficWeight: 0}")).await?;
    let reason = |name: &'static str, part: &'static str| async move {
        let judged = |inference: &Inference| condition(inference, part).is_some_and(|(status, ..)| status == "False");
        let inference = flow.until(name, judged).await?;
        let (_, reason, message) = condition(&inference, part).context("the condition went away")?;
        anyhow::Ok(format!("{reason}: {message}"))
    };
    let unknown = reason("unknown", "ModelReady").await?;
    ensure!(unknown.contains("ModelVersionNotFound") && unknown.contains("no-such-version"), "{unknown}");
    let waiting = reason("waiting", "ModelReady").await?;
    ensure!(waiting.contains("never"), "{waiting}");
    let zero = reason("zero", "RoutesReady").await?;
    ensure!(zero.contains("weight"), "{zero}");
    Ok(())
}

/// The new pods never get ready, the status says why, and the old ones go on answering.
pub async fn a_model_that_cannot_load_leaves_traffic_on_the_old_one(flow: &Flow) -> anyhow::Result<()> {
    let good = "modelway example digits --variant centroid";
    let good_job = job("good", "true")
        .replace("image: busybox", "image: modelway:0.1.0")
        .replace("command: [sh, -c, 'cd \"$OUTPUT_DIR\" && true']", &format!("command: [{}]", good.replace(' ', ", ")));
    flow.apply(&good_job).await?;
    flow.apply(&job("broken", "echo not a model > weights.bin")).await?;
    let inference = |job: &str| {
        format!(
            "apiVersion: serving.kubedl.io/v1alpha1\nkind: Inference\nmetadata: {{name: careful}}\nspec:\n  framework: ONNX\n  predictors:\n    - {{name: only, model: {{name: faulty, job: {job}}}}}\n"
        )
    };
    flow.apply(&inference("good")).await?;
    let endpoint = flow.endpoint("careful").await?;
    let load = Load::start(&endpoint, "faulty", 20, 2)?;
    flow.apply(&inference("broken")).await?;
    let blamed = |inference: &Inference| {
        let predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
        predictors.filter_map(|predictor| predictor.message.as_deref()).any(|message| message.contains(".onnx"))
    };
    flow.until("careful", blamed).await?;
    let report = load.stop().await?;
    ensure!(report.failures.is_empty(), "failed requests: {:?}", report.failures);
    ensure!(report.answers > 0, "nobody asked");
    let again = Load::start(&endpoint, "faulty", 20, 2)?.stop().await?;
    ensure!(again.failures.is_empty(), "failed requests: {:?}", again.failures);
    Ok(())
}

/// An Inference and a predictor with the longest names serve the version of a job with a long name; of two Inferences
/// whose children have one name, the second says so and touches nothing.
pub async fn names_at_their_limits_work_and_children_that_collide_are_named(flow: &Flow) -> anyhow::Result<()> {
    let (job_name, inference, predictor) = (format!("j{}", "o".repeat(50)), "i".repeat(40), "p".repeat(22));
    let train = "modelway example digits --variant centroid";
    let manifest = job(&job_name, "true").replace("image: busybox", "image: modelway:0.1.0").replace(
        "command: [sh, -c, 'cd \"$OUTPUT_DIR\" && true']",
        &format!("command: [{}]", train.replace(' ', ", ")),
    );
    flow.apply(&manifest).await?;
    let serve = |name: &str, predictor: &str| {
        format!(
            "apiVersion: serving.kubedl.io/v1alpha1\nkind: Inference\nmetadata: {{name: {name}}}\nspec:\n  framework: ONNX\n  predictors:\n    - {{name: {predictor}, model: {{name: faulty, job: {job_name}}}}}\n"
        )
    };
    flow.apply(&serve(&inference, &predictor)).await?;
    flow.ready(&inference).await?;
    let longer =
        flow.apply(&serve(&format!("{inference}i"), "p")).await.err().context("41 characters were accepted")?;
    ensure!(format!("{longer:#}").contains("40 characters"), "{longer:#}");
    flow.apply(&serve("a", "b-c")).await?;
    flow.ready("a").await?;
    flow.apply(&serve("a-b", "c")).await?;
    let taken =
        |inference: &Inference| condition(inference, "Ready").is_some_and(|(_, reason, _)| reason == "NameTaken");
    let second = flow.until("a-b", taken).await?;
    let (.., message) = condition(&second, "Ready").context("the condition went away")?;
    ensure!(message.contains("a-b-c"), "{message}");
    flow.ready("a").await?;
    Ok(())
}
