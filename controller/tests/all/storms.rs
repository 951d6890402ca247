//! Whatever the network and the server do, the end is the same.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use modelway_plan::{Kind, json as read};
use serde_json::json;

use crate::{
    faults::{Faults, Seen, Storm},
    platform::{Platform, Running, options},
    serving::{serve, until_quiet, weights},
};

/// What must be there after the whole story, once and only once.
pub async fn check_story(platform: &Platform) {
    let versions = platform.list(Kind::ModelVersion).await;
    assert_eq!(versions.len(), 2, "{versions:?}");
    for version in &versions {
        assert_eq!(read::text(version, "/status/imageBuildPhase"), "ImageBuildSucceeded");
        assert_eq!(version["status"]["attempts"], 1, "a build was done twice");
    }
    let jobs = platform.names(Kind::Job).await;
    assert_eq!(jobs.iter().filter(|name| name.contains("-build-")).count(), 2, "{jobs:?}");
    let table = platform.get(Kind::RouteTable, "digits").await.unwrap();
    assert_eq!(weights(&table), [("v1".to_owned(), 90), ("v2".to_owned(), 10)]);
    let deployments = platform.names(Kind::Deployment).await;
    assert_eq!(deployments, ["digits-router", "digits-v1", "digits-v2"]);
}

async fn story_in_a_storm(seed: u64) {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(seed);
    faults.storm(Storm::HEAVY);
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    serve(&platform).await;
    faults.storm(Storm::default());
    until_quiet(&platform).await;
    check_story(&platform).await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_the_same_after_a_storm() {
    for seed in [1, 2] {
        story_in_a_storm(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_cut_again_and_again_misses_nothing() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(7);
    faults.storm(Storm { cut_after: Some(Duration::from_millis(30)), ..Storm::default() });
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    serve(&platform).await;
    faults.storm(Storm::default());
    check_story(&platform).await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(3);
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    platform.publish("train-0", 'a').await;
    platform.train("train-1").await;
    faults.storm(Storm { busy: 100, ..Storm::default() });
    faults.forget();
    platform.end("train-1", true, "").await;
    let first = || async { faults.seen().iter().any(Seen::is_write).then_some(()) };
    platform.eventually("a first write", first).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    let writes = faults.seen().iter().filter(|seen| seen.is_write()).count();
    assert!(writes <= 2, "{writes} writes although each was told to wait for a second");
    faults.storm(Storm::default());
    platform.finish_build('b').await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_expired_stops_nothing_for_good() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(5);
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    platform.publish("train-0", 'a').await;
    platform.train("train-1").await;
    // Watches end and are refused too, until the client reads a new token.
    faults.storm(Storm { expired: 100, cut_after: Some(Duration::from_millis(100)), ..Storm::default() });
    faults.forget();
    platform.end("train-1", true, "").await;
    let asked = || async { (faults.seen().len() >= 4).then_some(()) };
    platform.eventually("requests that are refused", asked).await;
    faults.storm(Storm::default());
    platform.finish_build('b').await;
    let versions = platform.list(Kind::ModelVersion).await;
    assert_eq!(versions.len(), 2, "{versions:?}");
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_fell_behind_the_servers_history_lists_again() {
    let platform = Platform::with_short_history(20).await;
    let faults = Faults::new(5);
    let short = Some(Duration::from_millis(200));
    faults.storm(Storm { cut_after: short, ..Storm::default() });
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    platform.publish("train-1", 'a').await;
    // No watch comes back while more happens than the server remembers.
    faults.storm(Storm { dropped: 100, ..Storm::default() });
    platform.train("train-2").await;
    platform.end("train-2", true, "").await;
    for number in 0..200 {
        let note = json!({"metadata": {"annotations": {"number": number.to_string()}}});
        let params = PatchParams::default();
        platform.api(Kind::Model).patch("digits", &params, &Patch::Merge(note)).await.unwrap();
    }
    faults.storm(Storm::default());
    platform.finish_build('b').await;
    platform
        .eventually("two versions", || async {
            let model = platform.get(Kind::Model, "digits").await?;
            (model["status"]["versionCount"] == 2).then_some(())
        })
        .await;
    controller.stop().await;
}
