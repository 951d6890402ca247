//! The flows of `modelway-tests` on Kubernetes.

use modelway_tests::flows::{self, Flow};

use super::installed::installed;

/// Runs one flow in a namespace of its own; the objects are in the failure.
async fn run<F: AsyncFnOnce(&Flow) -> anyhow::Result<()>>(name: &str, flow: F) {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    let outcome = async {
        let context = installed.flow(name).await?;
        flow(&context).await
    };
    if let Err(error) = outcome.await {
        let kinds = "inferences,modelversions,jobs,pods,events";
        let objects = installed.cluster.kubectl_ok(&["get", kinds, "-n", name]).await.unwrap_or_default();
        let all = ["logs", "-n", super::installed::RELEASE, "-l", "app.kubernetes.io/component=controller", "--tail=100"];
        let log = installed.cluster.kubectl_ok(&all).await.unwrap_or_default();
        panic!("{error:?}\n{objects}\ncontroller:\n{log}");
    }
    // Frees the volumes and the memory.
    let _best_effort = installed.cluster.kubectl(&["delete", "namespace", name, "--wait=false"]).await;
}

#[tokio::test]
async fn two_jobs_become_a_split_that_reweights_and_rolls_without_loss() {
    run("story", flows::publishes_serves_reweights_and_rolls).await;
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
