//! Predictors, routes and their status.

use std::time::Duration;

use modelway_plan::{Key, Kind, json as read};
use serde_json::{Value, json};

use crate::simulation::{NAMESPACE, Simulation};

pub fn inference(predictors: &Value) -> Value {
    json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
        "metadata": {"name": "digits", "namespace": NAMESPACE},
        "spec": {"framework": "ONNX", "predictors": predictors, "traffic": {"sticky": [{"header": "x-user"}]}}})
}

pub fn by_job(name: &str, job: &str, weight: i64) -> Value {
    json!({"name": name, "model": {"name": "digits", "job": job}, "trafficWeight": weight})
}

pub fn two_versions() -> Simulation {
    let mut simulation = Simulation::new();
    for job in ["job-1", "job-2"] {
        simulation.train(job);
        simulation.end(job, true, "");
    }
    simulation.run();
    simulation
}

fn serving() -> Simulation {
    let mut simulation = two_versions();
    simulation.put(inference(&json!([by_job("v1", "job-1", 90), by_job("v2", "job-2", 10)])));
    simulation.run();
    simulation
}

pub fn ready(simulation: &Simulation) -> (String, String) {
    simulation.condition(Kind::Inference, "digits", "Ready")
}

pub fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn two_predictors_split_90_10_behind_one_url() {
    let simulation = serving();
    assert_eq!(ready(&simulation), pair("True", "Ready"));
    assert_eq!(simulation.arms("digits"), [("v1".to_owned(), 90), ("v2".to_owned(), 10)]);
    let status = &simulation.get(Kind::Inference, "digits").unwrap()["status"];
    assert_eq!(status["inferenceEndpoint"], "http://127.1.128.1:8080");
    assert_eq!((&status["split"], &status["replicas"]), (&json!("90/10"), &json!("2/2")));
    assert_eq!(simulation.names(Kind::Deployment), ["digits-router", "digits-v1", "digits-v2"]);
    assert_eq!(simulation.names(Kind::Service), ["digits", "digits-v1", "digits-v2"]);
    assert_eq!(simulation.names(Kind::Secret), ["digits-route-key"]);
    let pod = &simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"]["template"]["spec"];
    assert!(read::text(pod, "/volumes/0/image/reference").contains("@sha256:"));
}

#[test]
fn a_manifest_may_come_before_its_training() {
    let mut simulation = Simulation::new();
    simulation.put(inference(&json!([by_job("v1", "job-1", 90)])));
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "WaitingForModelVersion"));
    simulation.train("job-1");
    simulation.end("job-1", true, "");
    simulation.run();
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn a_failed_job_and_an_unknown_version_are_named() {
    let mut simulation = Simulation::new();
    simulation.train("job-1");
    simulation.end("job-1", false, "");
    simulation.put(inference(&json!([by_job("v1", "job-1", 90)])));
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "WaitingForJobFailed"));
    assert_eq!(simulation.condition(Kind::Inference, "digits", "Stalled").0, "True");
    simulation.put(inference(&json!([{"name": "v1", "modelVersion": "nope"}])));
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "ModelVersionNotFound"));
}

#[test]
fn a_deleted_version_is_missed_and_the_way_back_is_told() {
    let mut simulation = serving();
    let version = simulation.names(Kind::ModelVersion).into_iter().find(|name| name.starts_with("mv-job-1")).unwrap();
    simulation.world.remove(&modelway_plan::Key::new(Kind::ModelVersion, NAMESPACE, &version));
    // The garbage collector takes what it owned.
    let builds = simulation.names(Kind::Job).into_iter().filter(|name| name.starts_with(&version));
    for build in builds.collect::<Vec<_>>() {
        simulation.world.remove(&modelway_plan::Key::new(Kind::Job, NAMESPACE, build));
    }
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "ModelVersionNotFound"));
    assert_eq!(simulation.arms("digits").len(), 2, "what runs goes on running");
    simulation.edit(Kind::Job, "job-1", |job| {
        job["metadata"]["annotations"].as_object_mut().unwrap().shift_remove("modelway.io/model-version");
    });
    simulation.run();
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn reweighting_changes_routes_and_no_pod() {
    let mut simulation = serving();
    let template =
        |simulation: &Simulation| simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"]["template"].clone();
    let before = template(&simulation);
    simulation.put(inference(&json!([by_job("v1", "job-1", 50), by_job("v2", "job-2", 50)])));
    simulation.settle();
    assert_eq!(simulation.arms("digits"), [("v1".to_owned(), 50), ("v2".to_owned(), 50)]);
    assert_eq!(template(&simulation), before);
}

#[test]
fn all_weights_zero_leave_the_traffic_as_it_was() {
    let mut simulation = serving();
    simulation.put(inference(&json!([by_job("v1", "job-1", 0), by_job("v2", "job-2", 0)])));
    simulation.run();
    assert_eq!(simulation.arms("digits"), [("v1".to_owned(), 90), ("v2".to_owned(), 10)]);
    assert_eq!(ready(&simulation), pair("False", "AllWeightsZero"));
}

#[test]
fn weights_that_were_always_zero_are_the_cause_not_the_router() {
    let mut simulation = two_versions();
    simulation.put(inference(&json!([by_job("v1", "job-1", 0), by_job("v2", "job-2", 0)])));
    simulation.settle();
    simulation.put(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits-router-a", "namespace": NAMESPACE,
        "labels": {"kubedl.io/inference-name": "digits", "app.kubernetes.io/component": "router"}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Unhealthy", "message": "503"}]}}),
    );
    simulation.settle();
    assert_eq!(ready(&simulation), pair("False", "AllWeightsZero"));
}

#[test]
fn a_new_version_takes_over_only_when_it_is_ready() {
    let mut simulation = serving();
    let model = |simulation: &Simulation| {
        simulation.get(Kind::RouteTable, "digits").unwrap()["spec"]["arms"][0]["model"].clone()
    };
    let before = model(&simulation);
    simulation.put(inference(&json!([by_job("v1", "job-2", 90), by_job("v2", "job-2", 10)])));
    simulation.settle();
    assert_eq!(model(&simulation), before, "the old pods serve");
    assert_eq!(ready(&simulation).0, "False");
    simulation.run();
    assert_ne!(model(&simulation), before);
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn a_model_that_cannot_load_leaves_the_old_one_serving_and_says_why() {
    let mut simulation = serving();
    simulation.put(inference(&json!([by_job("v1", "job-2", 90), by_job("v2", "job-2", 10)])));
    simulation.settle();
    simulation.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits-v1-new", "namespace": NAMESPACE,
        "labels": {"kubedl.io/inference-name": "digits", "kubedl.io/predictor-name": "v1"}},
        "status": {"containerStatuses": [{"name": "server", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "model.onnx: bad magic"}}}]}}));
    simulation.settle();
    assert_eq!(ready(&simulation), pair("False", "CrashLoopBackOff"));
    let status = &simulation.get(Kind::Inference, "digits").unwrap()["status"];
    assert!(read::text(status, "/predictorStatuses/0/message").contains("bad magic"));
    assert_eq!(status["split"], "90/10");
}

#[test]
fn an_equal_model_under_another_name_rolls_no_pod() {
    let mut simulation = serving();
    let first = simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"]["template"].clone();
    simulation.train("job-3");
    simulation.edit(Kind::Job, "job-3", |job| {
        job["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "job-1".into();
    });
    simulation.end("job-3", true, "");
    simulation.run();
    simulation.put(inference(&json!([by_job("v1", "job-3", 90), by_job("v2", "job-2", 10)])));
    simulation.run();
    assert_eq!(simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"]["template"], first);
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn a_removed_predictor_goes_after_the_routes_have_left_it() {
    let mut simulation = serving();
    simulation.put(inference(&json!([by_job("v2", "job-2", 10)])));
    simulation.settle();
    assert_eq!(simulation.arms("digits"), [("v2".to_owned(), 10)]);
    assert!(simulation.get(Kind::Deployment, "digits-v1").is_some(), "its last requests are answered");
    simulation.pass(Duration::from_secs(6));
    simulation.settle();
    assert!(simulation.get(Kind::Deployment, "digits-v1").is_none());
    assert!(simulation.get(Kind::Service, "digits-v1").is_none());
    assert!(simulation.get(Kind::Deployment, "digits-router").is_some());
}

#[test]
fn an_object_of_somebody_else_is_never_touched() {
    let mut simulation = two_versions();
    simulation.put(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "digits-v1", "namespace": NAMESPACE},
        "spec": {"replicas": 3}}),
    );
    simulation.put(inference(&json!([by_job("v1", "job-1", 90)])));
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "NameTaken"));
    assert_eq!(simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"], json!({"replicas": 3}));
}

#[test]
fn paused_reports_and_changes_nothing() {
    let mut simulation = serving();
    simulation.edit(Kind::Inference, "digits", |inference| {
        inference["spec"]["paused"] = true.into();
        inference["spec"]["predictors"][0]["trafficWeight"] = 1.into();
        inference["spec"]["predictors"][0]["replicas"] = 5.into();
    });
    simulation.run();
    assert_eq!(simulation.arms("digits")[0].1, 90);
    assert_eq!(simulation.get(Kind::Deployment, "digits-v1").unwrap()["spec"]["replicas"], 1);
}

/// An Inference whose first predictor's Deployment is refused with these words.
fn refused(message: &str, may_pass: bool) -> (Simulation, Value) {
    let mut simulation = two_versions();
    simulation.put(inference(&json!([by_job("v1", "job-1", 90)])));
    let key = Key::new(Kind::Inference, NAMESPACE, "digits");
    let refused = simulation.plan(&key).actions.into_iter().find_map(|action| match action {
        modelway_plan::Action::Apply(object) if object["kind"] == "Deployment" => Some(object),
        _ => None,
    });
    let refused = refused.unwrap();
    let applied = read::annotation(&refused, "modelway.io/applied").unwrap().to_owned();
    let (message, at) = (message.to_owned(), simulation.now);
    let rejection = modelway_plan::world::Rejection { applied, message, may_pass, at };
    simulation.world.reject(Key::of(&refused).unwrap(), rejection);
    (simulation, refused)
}

#[test]
fn a_refused_child_is_named() {
    let (mut simulation, refused) = refused("spec.x: unknown", false);
    simulation.settle();
    assert_eq!(ready(&simulation), pair("False", "ChildRejected"));
    simulation.pass(Duration::from_mins(5));
    simulation.settle();
    assert!(simulation.get(Kind::Deployment, read::name(&refused)).is_none(), "the same manifest is not sent again");
}

#[test]
fn a_refusal_that_may_pass_has_its_reason_and_is_tried_again() {
    let (mut simulation, refused) = refused("deployments \"a\" is forbidden: exceeded quota: q", true);
    simulation.settle();
    assert_eq!(ready(&simulation), pair("False", "QuotaExceeded"));
    assert!(simulation.get(Kind::Deployment, read::name(&refused)).is_none());
    simulation.pass(Duration::from_secs(11));
    simulation.run();
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn routers_get_an_account_and_one_role_where_a_role_is_given() {
    let mut simulation = two_versions();
    simulation.settings.router_role = Some("modelway-router".to_owned());
    simulation.put(inference(&json!([by_job("v1", "job-1", 90)])));
    simulation.run();
    assert_eq!(simulation.names(Kind::ServiceAccount), ["digits-router"]);
    let binding = simulation.get(Kind::RoleBinding, "digits-router").unwrap();
    assert_eq!(binding["roleRef"]["name"], "modelway-router");
    assert_eq!(binding["subjects"][0]["name"], "digits-router");
    let router = simulation.get(Kind::Deployment, "digits-router").unwrap();
    assert_eq!(router["spec"]["template"]["spec"]["serviceAccountName"], "digits-router");
    assert!(serving().names(Kind::RoleBinding).is_empty(), "nothing is authorised on one machine");
}

#[test]
fn several_pods_have_a_budget_and_a_single_one_has_none() {
    let mut simulation = serving();
    assert!(simulation.names(Kind::PodDisruptionBudget).is_empty());
    let replicas = |simulation: &mut Simulation, count: i64| {
        simulation.edit(Kind::Inference, "digits", |inference| {
            inference["spec"]["predictors"][0]["replicas"] = count.into();
            inference["spec"]["router"] = json!({"replicas": count});
        });
        simulation.run();
    };
    replicas(&mut simulation, 2);
    assert_eq!(simulation.names(Kind::PodDisruptionBudget), ["digits-router", "digits-v1"]);
    replicas(&mut simulation, 1);
    assert!(simulation.names(Kind::PodDisruptionBudget).is_empty());
}

#[test]
fn a_key_is_made_once_and_again_when_routers_miss_it() {
    let mut simulation = serving();
    let key = Key::new(Kind::Inference, NAMESPACE, "digits");
    let makes_key = |simulation: &Simulation| {
        let actions = simulation.plan(&key).actions;
        actions
            .iter()
            .any(|action| matches!(action, modelway_plan::Action::Create(object) if object["kind"] == "Secret"))
    };
    assert!(!makes_key(&simulation));
    simulation.put(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits-router-a", "namespace": NAMESPACE,
        "creationTimestamp": simulation.now.to_string(),
        "labels": {"kubedl.io/inference-name": "digits", "app.kubernetes.io/component": "router"}},
        "status": {"phase": "Pending"}}),
    );
    assert!(!makes_key(&simulation), "it may be on its way");
    simulation.pass(Duration::from_secs(31));
    assert!(makes_key(&simulation), "somebody may have deleted it");
}

#[test]
fn nonsense_in_the_spec_is_a_condition() {
    let mut simulation = serving();
    simulation.edit(Kind::Inference, "digits", |inference| {
        inference["spec"]["traffic"]["timeouts"] = json!({"total": "soon"});
    });
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "InvalidSpec"));
    simulation.edit(Kind::Inference, "digits", |inference| inference["spec"]["predictors"] = "x".into());
    simulation.run();
    assert_eq!(ready(&simulation), pair("False", "InvalidSpec"));
}
