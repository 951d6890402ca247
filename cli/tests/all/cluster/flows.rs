//! The flows of `modelway-tests` on Kubernetes.

use modelway_tests::flows::{self, Flow};

use super::installed::installed;
use super::scene::play;

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
async fn names_at_their_limits_work_and_children_that_collide_are_named() {
    run("names", flows::names_at_their_limits_work_and_children_that_collide_are_named).await;
}
