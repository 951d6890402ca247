//! Job to image over the API.

use modelway_plan::{Kind, json as read};

use crate::platform::Platform;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_becomes_an_image_across_restarts_and_once() {
    let mut platform = Platform::start().await;
    platform.train("train-1").await;
    platform.end("train-1", true, r#"{"modelPath": "/output", "metrics": {"loss": 0.25}}"#).await;
    let build = platform.build().await;
    platform.stop_controller().await;
    platform.start_controller();
    platform.finish_build('a').await;
    let version = platform
        .eventually("a finished version", || async {
            platform
                .list(Kind::ModelVersion)
                .await
                .into_iter()
                .find(|version| read::text(version, "/status/imageBuildPhase") == "ImageBuildSucceeded")
        })
        .await;
    assert!(read::text(&version, "/status/image").contains("@sha256:aaaa"));
    assert_eq!(version["status"]["metrics"]["loss"], 0.25);
    let name = read::name(&version).to_owned();
    platform
        .until(Kind::Model, "digits", |model| model["status"]["latestVersion"]["modelVersion"] == name.as_str())
        .await;
    platform
        .until(Kind::ModelVersion, &name, |version| version["metadata"]["ownerReferences"][0]["kind"] == "Model")
        .await;
    platform.stop_controller().await;
    platform.start_controller();
    platform.publish("train-2", 'b').await;
    assert_eq!(platform.names(Kind::ModelVersion).await.len(), 2);
    let builds = platform.names(Kind::Job).await;
    assert_eq!(builds.iter().filter(|name| name.contains("-build-")).count(), 2, "{builds:?}");
    assert!(builds.contains(&build));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_output_ends_with_its_reason() {
    let platform = Platform::start().await;
    platform.train("train-1").await;
    platform.end("train-1", true, "").await;
    let build = platform.build().await;
    platform.end(&build, false, r#"{"error": "/source has no files", "reason": "SourceEmpty"}"#).await;
    let failed = platform
        .eventually("a failed version", || async {
            platform
                .list(Kind::ModelVersion)
                .await
                .into_iter()
                .find(|version| read::text(version, "/status/imageBuildPhase") == "ImageBuildFailed")
        })
        .await;
    assert!(read::text(&failed, "/status/message").contains("no files"));
    assert_eq!(failed["status"]["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_job_is_told_on_the_job() {
    let platform = Platform::start().await;
    platform.train("train-1").await;
    platform.end("train-1", false, "").await;
    let told = "modelway.io/not-published";
    platform
        .until(Kind::Job, "train-1", |job| {
            read::annotation(job, told).is_some_and(|note| note.starts_with("JobFailed"))
        })
        .await;
    assert!(platform.names(Kind::ModelVersion).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_come_later_are_found() {
    let mut platform = Platform::without_kinds();
    platform.start_controller();
    platform.train("train-1").await;
    platform.end("train-1", true, "").await;
    platform.install_kinds().await;
    platform.finish_build('a').await;
}
