//! The flows of `modelway-tests` on `modelway up`.

use modelway_tests::flows::{self, Flow};

use crate::harness::Scratch;

/// Runs one flow in a namespace of its own; the platform's log is in the failure.
async fn run<F: AsyncFnOnce(&Flow) -> anyhow::Result<()>>(name: &str, flow: F) {
    let scratch = Scratch::new();
    let platform = scratch.up();
    let outcome = async {
        let context = Flow::new(platform.client().await, name).await?;
        flow(&context).await
    };
    if let Err(error) = outcome.await {
        panic!("{error:?}\nplatform log:\n{}", platform.log());
    }
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
async fn another_scaler_owns_the_number() {
    run("theirs", flows::another_scaler_owns_the_number).await;
}

#[tokio::test]
async fn names_at_their_limits_work_and_children_that_collide_are_named() {
    run("names", flows::names_at_their_limits_work_and_children_that_collide_are_named).await;
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

#[tokio::test]
async fn a_morphling_experiment_runs_as_it_is() {
    run("morphling", flows::a_morphling_experiment_runs_as_it_is).await;
}
