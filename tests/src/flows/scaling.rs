//! Predictors that follow their load: asleep, awake, more, fewer, and nobody notices.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use modelway_api::Inference;
use modelway_api::inference::PredictorStatus;
use serde_json::json;

use super::load::{Load, Report};
use super::support::{Flow, condition};

const JOBS: &str = include_str!("../../../examples/digits/manifests/jobs.yaml");
const INFERENCE: &str = include_str!("../../../examples/digits/manifests/inference.yaml");
const USERS: u32 = 300;
/// Short windows, so that a test sees what a service does in minutes.
const FOLLOWS: &str = "autoScale: {minReplicas: 0, maxReplicas: 3, target: 2, window: 6s, scaleToZeroGrace: 1s}";

/// The second predictor sleeps while nobody asks, wakes for its users, gets more pods under their load, and sleeps
/// again. No request fails, and every user stays on the same model.
pub async fn a_predictor_sleeps_wakes_and_follows_its_load(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(JOBS).await?;
    flow.apply(INFERENCE).await?;
    let endpoint = flow.endpoint("digits").await?;
    let before = ask(&endpoint, 4, Duration::from_secs(1)).await?;

    flow.apply(&INFERENCE.replace("trafficWeight: 10", &format!("trafficWeight: 10\n      {FOLLOWS}"))).await?;
    sleeps(flow).await?;
    let inference = flow.ready("digits").await?;
    let percents = inference.status.map(|status| status.predictor_statuses).unwrap_or_default();
    ensure!(percents.iter().map(|predictor| predictor.traffic_percent).eq([90, 10]), "the sleeper lost its users");

    let load = Load::start(&endpoint, "digits", USERS, 16)?;
    flow.until("digits", |inference: &Inference| v2(inference).is_some_and(|v2| v2.ready_replicas >= 1)).await?;
    let event = flow.event("digits", "Scaled").await?;
    ensure!(event.contains("predictor v2"), "{event}");
    // All of its users at once: more than two pods' worth, for as long as it takes.
    let v2_users = before.models_by_user.iter().filter(|(_, models)| models[0] != most_seen(&before));
    let v2_users: Vec<u32> = v2_users.map(|(user, _)| *user).collect();
    let burst = Load::start_for(&endpoint, "digits", &v2_users, 24)?;
    flow.until("digits", |inference: &Inference| v2(inference).is_some_and(|v2| v2.ready_replicas >= 2)).await?;
    let (report, burst) = (load.stop().await?, burst.stop().await?);
    for report in [&report, &burst] {
        ensure!(report.failures.is_empty(), "failed requests: {:?}", report.failures);
        for (user, models) in &report.models_by_user {
            let known = &before.models_by_user[user][0];
            ensure!(models.iter().all(|model| model == known), "user {user} left the arm");
        }
    }
    sleeps(flow).await
}

async fn ask(endpoint: &str, lanes: u32, time: Duration) -> anyhow::Result<Report> {
    let load = Load::start(endpoint, "digits", USERS, lanes)?;
    tokio::time::sleep(time).await;
    let report = load.stop().await?;
    ensure!(report.failures.is_empty(), "failed requests: {:?}", report.failures);
    Ok(report)
}

/// The model that most users got.
fn most_seen(report: &Report) -> String {
    let mut counts = std::collections::BTreeMap::<&String, usize>::new();
    for models in report.models_by_user.values() {
        *counts.entry(&models[0]).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(model, _)| model.clone()).unwrap_or_default()
}

fn v2(inference: &Inference) -> Option<&PredictorStatus> {
    let mut predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
    predictors.find(|predictor| predictor.name == "v2")
}

async fn sleeps(flow: &Flow) -> anyhow::Result<()> {
    flow.until("digits", |inference: &Inference| {
        v2(inference).is_some_and(|v2| (v2.replicas, v2.desired_replicas) == (0, 0))
    })
    .await?;
    Ok(())
}

/// A model that never becomes ready: who waits for it gets a clear 503 in time, and its pods do not multiply.
pub async fn one_that_never_wakes_ends_the_wait(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(
        r"
apiVersion: serving.kubedl.io/v1alpha1
kind: Inference
metadata: {name: never}
spec:
  framework: Custom
  traffic: {hold: {maxAge: 5s}}
  predictors:
    - name: a
      replicas: 0
      autoScale: {minReplicas: 0, maxReplicas: 5, target: 1}
      template:
        metadata:
          annotations: {modelway.io/run-as-process: 'true'}
        spec:
          containers:
            - name: server
              image: busybox
              command: [sh, -c, 'sleep 1000 & wait']
              readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
",
    )
    .await?;
    let endpoint = flow.endpoint("never").await?;
    let http = reqwest::Client::builder().timeout(Duration::from_mins(1)).no_proxy().build()?;
    let start = Instant::now();
    let answers = (0..20).map(|_| http.get(format!("{endpoint}/anything")).send());
    for answer in futures::future::join_all(answers).await {
        let answer = answer?;
        let (status, retry_after) = (answer.status(), answer.headers().contains_key("retry-after"));
        let text = answer.text().await?;
        ensure!(status == 503 && retry_after, "{status}, retry-after: {retry_after}, {text}");
        ensure!(text.contains('a') && text.contains("error"), "{text}");
    }
    ensure!(start.elapsed() >= Duration::from_secs(5), "not held: {:?}", start.elapsed());
    let deployment: Deployment = flow.api::<Deployment>().get("never-a").await?;
    let replicas = deployment.spec.and_then(|spec| spec.replicas).unwrap_or_default();
    ensure!((1..=5).contains(&replicas), "{replicas} pods for 20 requests");
    Ok(())
}

/// An Inference with three pods that have nothing to do.
fn idle(scale: &str) -> String {
    format!(
        r"
apiVersion: serving.kubedl.io/v1alpha1
kind: Inference
metadata: {{name: theirs}}
spec:
  framework: Custom
  predictors:
    - name: a
      replicas: 3
      {scale}
      template:
        metadata:
          annotations: {{modelway.io/run-as-process: 'true'}}
        spec:
          containers:
            - {{name: server, image: busybox, command: [sh, -c, 'sleep 1000 & wait']}}
"
    )
}

/// Somebody else's scaler gets the number of pods as it is, and what it writes stays.
pub async fn another_scaler_owns_the_number(flow: &Flow) -> anyhow::Result<()> {
    flow.apply(&idle("")).await?;
    let count = |wanted: i32| {
        move |deployment: &Deployment| {
            deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(wanted)
                && deployment.metadata.annotations.as_ref().is_some()
        }
    };
    flow.until("theirs-a", count(3)).await?;
    flow.apply(&idle("autoScale: {autoScaler: {kind: HorizontalPodAutoscaler, name: theirs}}")).await?;
    let handed = |deployment: &Deployment| {
        let annotations = deployment.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key("modelway.io/scaled-by"))
    };
    let deployment = flow.until("theirs-a", handed).await?;
    ensure!(count(3)(&deployment), "handed over with {:?} pods", deployment.spec.and_then(|spec| spec.replicas));
    let deployments: Api<Deployment> = flow.api();
    let scale = Patch::Merge(json!({"spec": {"replicas": 2}}));
    deployments.patch_scale("theirs-a", &PatchParams::default(), &scale).await?;
    let told = |inference: &Inference| {
        let predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
        predictors.into_iter().any(|predictor| predictor.desired_replicas == 2)
    };
    let inference = flow.until("theirs", told).await?;
    let reason = inference.status.iter().flat_map(|status| &status.predictor_statuses);
    let reason = reason.filter_map(|predictor| predictor.scale_reason.clone()).collect::<String>();
    ensure!(reason == "left to HorizontalPodAutoscaler theirs", "{reason}");
    // A change of something else writes the Deployment again.
    flow.apply(&idle("autoScale: {autoScaler: {kind: HorizontalPodAutoscaler, name: theirs}}\n      pullSecret: x"))
        .await?;
    let seen = |inference: &Inference| condition(inference, "Ready").is_some();
    flow.until("theirs", seen).await?;
    let deployment: Deployment = deployments.get("theirs-a").await?;
    ensure!(count(2)(&deployment), "our write changed their number");
    Ok(())
}

/// A real `HorizontalPodAutoscaler` raises the number of pods, and it stays. For platforms that have them.
pub async fn a_horizontal_pod_autoscaler_keeps_its_number(flow: &Flow) -> anyhow::Result<()> {
    let scale = "autoScale: {autoScaler: {kind: HorizontalPodAutoscaler, name: hpa}}";
    flow.apply(&idle(scale)).await?;
    // Below its minimum it needs no metrics.
    flow.apply(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: hpa}\nspec: {minReplicas: 4, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: theirs-a}}\n",
    )
    .await?;
    let desired = |inference: &Inference| {
        let mut predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
        predictors.any(|predictor| predictor.desired_replicas == 4)
    };
    flow.until("theirs", desired).await.context("the HPA's number should show")?;
    // A change of something else writes the Deployment again.
    flow.apply(&idle(&format!("{scale}\n      pullSecret: x"))).await?;
    flow.until("theirs", |inference: &Inference| condition(inference, "Ready").is_some()).await?;
    let deployment: Deployment = flow.api::<Deployment>().get("theirs-a").await?;
    let replicas = deployment.spec.and_then(|spec| spec.replicas);
    ensure!(replicas == Some(4), "our write changed their number to {replicas:?}");
    Ok(())
}

/// A server that is there at once, asleep; `resources` is what its container wants.
fn sleeper(name: &str, resources: &str) -> String {
    format!(
        r"
apiVersion: serving.kubedl.io/v1alpha1
kind: Inference
metadata: {{name: {name}}}
spec:
  framework: Custom
  traffic: {{hold: {{maxAge: 2m}}}}
  predictors:
    - name: a
      replicas: 0
      autoScale: {{minReplicas: 0, maxReplicas: 5}}
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: server
              image: {image}
              command: [modelway, registry, --dir, /data, --listen, '$(POD_IP):8080']
              env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
              resources: {resources}
              securityContext: {{runAsUser: 65532}}
              volumeMounts: [{{name: data, mountPath: /data}}]
              readinessProbe: {{httpGet: {{path: /v2/, port: 8080}}, periodSeconds: 1}}
          volumes: [{{name: data, emptyDir: {{}}}}]
",
        image = modelway_api::image()
    )
}

/// No node has room for the pods that a request wakes: the Inference says so, few pods are asked for, and the request
/// that waits is answered once there is room.
pub async fn no_room_for_waking_is_told_and_loses_nobody(flow: &Flow) -> anyhow::Result<()> {
    no_room(flow, "big", "{requests: {cpu: '1000'}}", "Unschedulable", async || {
        flow.apply(&sleeper("big", "{requests: {cpu: 10m}}")).await
    })
    .await
}

/// The namespace's quota has no room for the pods that a request wakes, until somebody makes some.
/// For platforms that have quotas.
pub async fn no_quota_for_waking_is_told_and_loses_nobody(flow: &Flow) -> anyhow::Result<()> {
    let quota = |cpu: &str| {
        format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q}}\nspec: {{hard: {{limits.cpu: '{cpu}'}}}}\n")
    };
    // Other pods of the namespace need no limit for it to hold for these.
    let defaults = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: q}\nspec: {limits: [{type: Container, default: {cpu: 100m}}]}\n";
    flow.apply(defaults).await?;
    flow.apply(&quota("1")).await?;
    let resources = "{requests: {cpu: 10m}, limits: {cpu: '2'}}";
    no_room(flow, "over", resources, "QuotaExceeded", async || flow.apply(&quota("4")).await).await
}

async fn no_room(
    flow: &Flow,
    name: &str,
    resources: &str,
    reason: &str,
    make_room: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    flow.apply(&sleeper(name, resources)).await?;
    let endpoint = flow.endpoint(name).await?;
    let http = reqwest::Client::builder().timeout(Duration::from_mins(3)).no_proxy().build()?;
    let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(http.get(format!("{endpoint}/v2/")).send())).collect();
    let told = |inference: &Inference| condition(inference, "Ready").is_some_and(|(_, word, _)| word == reason);
    flow.until(name, told).await.with_context(|| format!("{name} should say {reason}"))?;
    let deployment: Deployment = flow.api::<Deployment>().get(&format!("{name}-a")).await?;
    let replicas = deployment.spec.and_then(|spec| spec.replicas).unwrap_or_default();
    ensure!((1..=2).contains(&replicas), "{replicas} pods before one was ever ready");
    ensure!(waiting.iter().all(|request| !request.is_finished()), "somebody stopped waiting before there was room");
    make_room().await?;
    for request in waiting {
        let answer = request.await??;
        ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text().await?);
    }
    Ok(())
}
