//! From a finished job to an image.

use std::time::Duration;

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::simulation::Simulation;

fn trained() -> (Simulation, String) {
    let mut simulation = Simulation::new();
    simulation.train("v1");
    simulation.settle();
    assert!(simulation.names(Kind::ModelVersion).is_empty(), "it has not ended");
    simulation.end("v1", true, "");
    simulation.settle();
    let version = simulation.names(Kind::ModelVersion).pop().unwrap();
    (simulation, version)
}

fn status<'a>(simulation: &'a Simulation, version: &str) -> &'a Value {
    &simulation.get(Kind::ModelVersion, version).unwrap()["status"]
}

#[test]
fn a_finished_job_becomes_a_version_with_an_image() {
    let (mut simulation, version) = trained();
    assert!(version.starts_with("mv-v1-"));
    let builds = simulation.running_builds();
    assert_eq!(builds.len(), 1);
    let pod = &simulation.get(Kind::Job, &builds[0]).unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"], json!({"claimName": "v1", "readOnly": true}));
    assert!(pod["containers"][0]["command"].to_string().contains(r#""--repository","127.0.0.1:5553/default/digits""#));
    assert!(pod["containers"][0]["command"].to_string().contains("--plain-http"));
    simulation.run();
    let status = status(&simulation, &version);
    assert_eq!(status["imageBuildPhase"], "ImageBuildSucceeded");
    assert!(read::text(status, "/image").starts_with("127.0.0.1:5553/default/digits@sha256:"));
    assert_eq!(status["metrics"]["accuracy"], 0.9);
    let model = simulation.get(Kind::Model, "digits").unwrap();
    assert_eq!(model["status"]["latestVersion"]["modelVersion"], version.as_str());
    let live = simulation.get(Kind::ModelVersion, &version).unwrap();
    assert!(read::is_owned_by(live, read::uid(model)));
}

#[test]
fn a_deleted_version_is_not_published_again() {
    let (mut simulation, version) = trained();
    simulation.run();
    let key = modelway_plan::Key::new(Kind::ModelVersion, "default", version);
    simulation.world.remove(&key);
    simulation.run();
    assert!(simulation.names(Kind::ModelVersion).is_empty());
}

#[test]
fn a_failed_job_makes_no_version_and_tells_once() {
    let mut simulation = Simulation::new();
    simulation.train("v1");
    simulation.end("v1", false, "");
    simulation.run();
    assert!(simulation.names(Kind::ModelVersion).is_empty());
    assert_eq!(simulation.events, ["JobFailed"]);
}

#[test]
fn the_jobs_report_is_waited_for_a_little() {
    let mut simulation = Simulation::new();
    simulation.train("v1");
    simulation.end("v1", true, r#"{"modelPath": "/output/best", "metrics": {"loss": 0.5}}"#);
    let pod = modelway_plan::Key::new(Kind::Pod, "default", "v1-pod");
    let hidden = simulation.world.remove(&pod).unwrap();
    simulation.settle();
    assert!(simulation.names(Kind::ModelVersion).is_empty());
    simulation.put(hidden.as_ref().clone());
    simulation.settle();
    let version = simulation.names(Kind::ModelVersion).pop().unwrap();
    let spec = &simulation.get(Kind::ModelVersion, &version).unwrap()["spec"];
    assert_eq!(spec["storage"]["pvc"], json!({"claimName": "v1", "subPath": "best"}));
    assert_eq!(spec["provenance"]["metrics"]["loss"], 0.5);
}

#[test]
fn an_unknown_source_is_told_and_can_be_mended() {
    let mut simulation = Simulation::new();
    simulation.train("v1");
    simulation.edit(Kind::Job, "v1", |job| job["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]));
    simulation.end("v1", true, "");
    simulation.run();
    assert_eq!(simulation.events, ["SourceUnknown"]);
    simulation.edit(Kind::Job, "v1", |job| job["metadata"]["annotations"]["modelway.io/source"] = "pvc://v1/x".into());
    simulation.settle();
    assert_eq!(simulation.names(Kind::ModelVersion).len(), 1);
}

#[test]
fn foreign_host_folders_and_bad_names_are_refused() {
    for (annotation, value, reason) in [
        ("modelway.io/source", "hostpath:///etc", "HostPathNotAllowed"),
        ("modelway.io/source", "nfs://server/x", "StorageNotSupported"),
        ("modelway.io/model", "Not A Name", "InvalidName"),
        ("modelway.io/version", "a b", "InvalidName"),
    ] {
        let mut simulation = Simulation::new();
        simulation.train("v1");
        simulation.edit(Kind::Job, "v1", |job| job["metadata"]["annotations"][annotation] = value.into());
        simulation.end("v1", true, "");
        simulation.run();
        assert_eq!(simulation.events, [reason]);
        assert!(simulation.names(Kind::ModelVersion).is_empty());
    }
}

#[test]
fn an_empty_output_fails_once_and_for_good() {
    let (mut simulation, version) = trained();
    let build = simulation.running_builds().pop().unwrap();
    simulation.end(&build, false, r#"{"error": "/source has no files", "reason": "SourceEmpty"}"#);
    simulation.run();
    let status = status(&simulation, &version);
    assert_eq!(status["imageBuildPhase"], "ImageBuildFailed");
    assert_eq!(status["attempts"], 1);
    assert!(read::text(status, "/log").contains("no files"));
    let told = simulation.events.iter().filter(|reason| *reason == "ImageBuildFailed").count();
    assert_eq!(told, 2, "of the version and of the training job: {:?}", simulation.events);
    assert!(simulation.get(Kind::Model, "digits").unwrap()["status"]["latestVersion"].is_null());
}

#[test]
fn a_builder_that_cannot_start_says_why() {
    let (mut simulation, version) = trained();
    let build = simulation.running_builds().pop().unwrap();
    let uid = read::uid(simulation.get(Kind::Job, &build).unwrap()).to_owned();
    let why = "volume \"source\": persistentvolumeclaim \"v1\" not found";
    simulation.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "default",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": build, "uid": uid, "controller": true}]},
        "status": {"containerStatuses": [{"name": "builder", "state": {"waiting": {"reason": "ContainerCreating", "message": why}}}]}}));
    simulation.settle();
    let message = read::text(status(&simulation, &version), "/message");
    assert!(message.starts_with("attempt 1 cannot start: pod b:") && message.contains(why), "{message}");
}

#[test]
fn a_failed_build_is_retried_with_a_bound() {
    let (mut simulation, version) = trained();
    for attempt in 1..=4 {
        let builds = simulation.running_builds();
        assert_eq!(builds.len(), 1, "attempt {attempt}");
        simulation.end(&builds[0], false, r#"{"error": "connection refused"}"#);
        simulation.settle();
        assert_eq!(status(&simulation, &version)["attempts"], attempt);
        simulation.pass(Duration::from_secs(20));
        simulation.settle();
    }
    assert!(simulation.running_builds().is_empty());
    assert_eq!(status(&simulation, &version)["imageBuildPhase"], "ImageBuildFailed");
}

#[test]
fn a_failed_version_may_be_respecified() {
    let (mut simulation, version) = trained();
    let build = simulation.running_builds().pop().unwrap();
    simulation.end(&build, false, r#"{"error": "x", "reason": "SourceEmpty"}"#);
    simulation.run();
    simulation
        .edit(Kind::ModelVersion, &version, |version| version["spec"]["storage"]["pvc"]["claimName"] = "other".into());
    simulation.run();
    assert_eq!(status(&simulation, &version)["imageBuildPhase"], "ImageBuildSucceeded");
    assert_eq!(simulation.condition(Kind::ModelVersion, &version, "Stalled").0, "");
}

#[test]
fn a_published_version_is_frozen() {
    let (mut simulation, version) = trained();
    simulation.run();
    let image = status(&simulation, &version)["image"].clone();
    simulation.edit(Kind::ModelVersion, &version, |version| version["spec"]["imageTag"] = "other".into());
    simulation.run();
    assert_eq!(simulation.condition(Kind::ModelVersion, &version, "SpecChanged").0, "True");
    assert_eq!(status(&simulation, &version)["image"], image);
    simulation
        .edit(Kind::ModelVersion, &version, |version| _ = version["spec"].as_object_mut().unwrap().remove("imageTag"));
    simulation.run();
    assert_eq!(simulation.condition(Kind::ModelVersion, &version, "SpecChanged").0, "False");
}

#[test]
fn a_result_for_another_repository_is_not_believed() {
    let (mut simulation, version) = trained();
    let build = simulation.running_builds().pop().unwrap();
    let digest = format!("sha256:{}", "a".repeat(64));
    simulation.end(&build, true, &json!({"image": format!("evil/x@{digest}"), "digest": digest}).to_string());
    simulation.settle();
    assert_eq!(status(&simulation, &version)["image"], Value::Null);
    assert_eq!(status(&simulation, &version)["attempts"], 1);
}

#[test]
fn only_a_job_that_owns_its_volume_is_held() {
    let mut simulation = Simulation::new();
    simulation.train("v1");
    simulation.settle();
    let finalizers = |simulation: &Simulation| {
        let job = simulation.get(Kind::Job, "v1").unwrap();
        read::items(job, "/metadata/finalizers").filter(|name| *name == "modelway.io/publish").count()
    };
    assert_eq!(finalizers(&simulation), 0);
    let uid = read::uid(simulation.get(Kind::Job, "v1").unwrap()).to_owned();
    simulation.put(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "v1", "namespace": "default", "ownerReferences": [{"uid": uid}]}}));
    simulation.settle();
    assert_eq!(finalizers(&simulation), 1);
    simulation.end("v1", true, "");
    simulation.settle();
    assert_eq!(finalizers(&simulation), 1, "held while it is built");
    simulation.run();
    assert_eq!(finalizers(&simulation), 0);
}
