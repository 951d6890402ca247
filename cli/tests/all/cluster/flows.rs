//! The flows of `modelway-tests` on Kubernetes.

use anyhow::Context as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::Timestamp;
use modelway_api::Inference;
use modelway_tests::flows::{self, Flow};

use super::installed::installed;
use super::scene::{endpoint, inference, job, load, no_request_failed, play, published};

/// Runs one flow in a namespace of its own.
async fn run<F: AsyncFnOnce(&Flow) -> anyhow::Result<()>>(name: &str, flow: F) {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, name, async |_, context| flow(context).await).await;
}

#[tokio::test]
async fn two_jobs_become_a_split_that_reweights_and_rolls_without_loss() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "story", async |installed, context| {
        let level = "pod-security.kubernetes.io/enforce=restricted";
        installed.cluster.kubectl_ok(&["label", "namespace", "story", level]).await?;
        flows::publishes_serves_reweights_and_rolls(context).await
    })
    .await;
}

#[tokio::test]
async fn a_failed_job_is_no_version() {
    run("failed", flows::a_failed_job_is_no_version).await;
}

#[tokio::test]
async fn an_empty_output_is_no_version() {
    run("empty", flows::an_empty_output_is_no_version).await;
}

#[tokio::test]
async fn bad_inferences_say_what_is_wrong() {
    run("bad", flows::bad_inferences_say_what_is_wrong).await;
}

#[tokio::test]
async fn a_model_that_cannot_load_leaves_traffic_on_the_old_one() {
    run("broken", flows::a_model_that_cannot_load_leaves_traffic_on_the_old_one).await;
}

#[tokio::test]
async fn a_predictor_sleeps_wakes_and_follows_its_load() {
    run("scaling", flows::a_predictor_sleeps_wakes_and_follows_its_load).await;
}

#[tokio::test]
async fn one_that_never_wakes_ends_the_wait() {
    run("never", flows::one_that_never_wakes_ends_the_wait).await;
}

#[tokio::test]
async fn no_room_for_waking_is_told_and_loses_nobody() {
    run("full", flows::no_room_for_waking_is_told_and_loses_nobody).await;
}

#[tokio::test]
async fn no_quota_for_waking_is_told_and_loses_nobody() {
    run("quota", flows::no_quota_for_waking_is_told_and_loses_nobody).await;
}

#[tokio::test]
async fn a_horizontal_pod_autoscaler_keeps_its_number() {
    run("hpa", flows::a_horizontal_pod_autoscaler_keeps_its_number).await;
}

#[tokio::test]
async fn another_scaler_owns_the_number() {
    run("theirs", flows::another_scaler_owns_the_number).await;
}

#[tokio::test]
async fn names_at_their_limits_work_and_children_that_collide_are_named() {
    run("names", flows::names_at_their_limits_work_and_children_that_collide_are_named).await;
}

#[tokio::test]
async fn the_newest_version_takes_traffic_by_itself() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "newest", async |_, flow| {
        flow.apply(&job("first", "centroid")).await?;
        flow.apply(&inference(&["{name: only, model: {name: digits, latest: true}}"])).await?;
        let endpoint = endpoint(flow).await?;
        flow.apply(&job("second", "wide")).await?;
        let users = load(&endpoint);
        let version = published(flow, "second").await?;
        let digest = version.status.and_then(|status| status.digest).unwrap_or_default();
        let takes_traffic = |inference: &Inference| {
            let mut predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
            predictors.all(|predictor| predictor.model_digest.as_deref() == Some(&digest))
        };
        flow.until("digits", takes_traffic).await?;
        let now = Timestamp::now();
        no_request_failed(users).await?;
        let ended = flow.api::<Job>().get("second").await?.status.and_then(|status| status.completion_time);
        let seconds = now.duration_since(ended.context("the job has no end")?.0).as_secs_f64();
        println!("from the job's end to its version's traffic: {seconds:.1} s");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_live_predictor_gets_a_better_spec() {
    run("tuned", flows::a_live_predictor_gets_a_better_spec).await;
}

#[tokio::test]
async fn a_trial_stands_alone() {
    run("trial", flows::a_trial_stands_alone).await;
}

#[tokio::test]
async fn a_deleted_experiment_leaves_nothing() {
    run("deleted", flows::a_deleted_experiment_leaves_nothing).await;
}

#[tokio::test]
async fn an_experiment_keeps_to_its_time() {
    run("late", flows::an_experiment_keeps_to_its_time).await;
}

/// Nodes have what they are said to have: a scheduler counts GPUs, it does not look for them.
#[tokio::test]
async fn gpus_are_candidates_with_a_price() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "gpus", async |installed, context| {
        let gpus = r#"{"status": {"capacity": {"nvidia.com/gpu": "2"}}}"#;
        let node = installed.cluster.nodes()?[0];
        installed
            .cluster
            .kubectl_ok(&["patch", "node", node, "--subresource=status", "--type=merge", "-p", gpus])
            .await?;
        flows::gpus_are_candidates_with_a_price(context).await
    })
    .await;
}

#[tokio::test]
async fn a_morphling_experiment_runs_as_it_is() {
    run("morphling", flows::a_morphling_experiment_runs_as_it_is).await;
}
