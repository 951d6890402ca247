//! One trial: what it makes, what becomes of it, and that nothing is left.

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::{
    profiling_bench::{Fate, play, run_all},
    simulation::{NAMESPACE, Simulation},
};

fn trial(client: Option<&Value>) -> Value {
    json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "Trial",
    "metadata": {"name": "alone", "namespace": NAMESPACE, "labels": {"experiment": "mine"}},
    "spec": {
        "samplingResult": [{"category": "resource", "name": "cpu", "value": "2000m"}, {"category": "env", "name": "batch.size", "value": "4"}],
        "objective": {"type": "maximize", "objectiveMetricName": "qps", "constraints": [{"metric": "p95", "max": "50ms"}]},
        "clientTemplate": client,
        "servicePodTemplate": {"metadata": {}, "template": {"spec": {"containers": [{"name": "s", "image": "server:1", "ports": [{"containerPort": 8500}]}]}}},
        "serviceProgressDeadline": 300,
    }})
}

fn types(simulation: &Simulation) -> Vec<(String, String)> {
    let live = simulation.get(Kind::Trial, "alone").unwrap();
    let conditions = read::items(live, "/status/conditions");
    conditions
        .map(|condition| (read::text(condition, "/type").to_owned(), read::text(condition, "/status").to_owned()))
        .collect()
}

fn outcome(simulation: &Simulation) -> Value {
    simulation.get(Kind::Trial, "alone").unwrap()["status"]["outcome"].clone()
}

fn leftovers(simulation: &Simulation) -> Vec<String> {
    [Kind::Deployment, Kind::Service, Kind::Job, Kind::Pod]
        .into_iter()
        .flat_map(|kind| simulation.names(kind))
        .collect()
}

#[test]
fn a_trial_alone_measures_and_leaves_nothing() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    let deployment = simulation.get(Kind::Deployment, "alone-deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"requests": {"cpu": "2000m"}, "limits": {"cpu": "2000m"}}));
    assert_eq!(container["env"], json!([{"name": "BATCH_SIZE", "value": "4"}]));
    let service = simulation.get(Kind::Service, "alone-service").unwrap();
    assert_eq!(
        service["spec"]["ports"][0],
        json!({"name": "profile-service", "port": 8500, "protocol": "TCP", "targetPort": 8500})
    );
    assert!(simulation.names(Kind::Job).is_empty(), "the service is not ready");
    assert_eq!(types(&simulation).last().unwrap().0, "Pending");

    play(&mut simulation, &|_| Fate::Rate(12.0));
    simulation.settle();
    let job = simulation.get(Kind::Job, "alone-client-job").unwrap();
    assert!(job["spec"]["template"]["spec"]["containers"][0]["command"].to_string().contains("http://10.0.0.7:8500/"));
    assert_eq!(types(&simulation).last().unwrap().0, "Running");

    run_all(&mut simulation, |_| Fate::Rate(12.0));
    let status = &simulation.get(Kind::Trial, "alone").unwrap()["status"];
    let metrics = &status["trialResult"]["objectiveMetricsObserved"];
    assert_eq!(metrics.as_array().unwrap().last().unwrap(), &json!({"name": "qps", "value": "12"}));
    assert_eq!((&status["node"], &status["limits"]), (&json!("node-1"), &json!("CgroupV2: cpu 1 by cgroup v2")));
    let names: Vec<String> = types(&simulation).into_iter().map(|(type_, _)| type_).collect();
    assert_eq!(names, ["Ready", "Created", "Pending", "Running", "Succeeded"]);
    assert_eq!(leftovers(&simulation), Vec::<String>::new());
}

#[test]
fn the_verdict_waits_until_nothing_is_left() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Rate(12.0));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Rate(12.0));
    simulation.settle();
    assert_eq!(outcome(&simulation)["state"], "Succeeded");
    assert!(simulation.names(Kind::Deployment).is_empty());
    assert_eq!(simulation.condition(Kind::Trial, "alone", "Running").1, "CleaningUp", "pods are still there");
    play(&mut simulation, &|_| Fate::Rate(12.0));
    simulation.settle();
    assert_eq!(simulation.condition(Kind::Trial, "alone", "Succeeded").0, "True");
}

#[test]
fn every_failure_has_its_reason_and_leaves_nothing() {
    for (fate, failure, reason) in [
        (Fate::OutOfMemory, json!("OutOfMemory"), "OOMKilled"),
        (Fate::Crash, json!("Crash"), "ServiceCrashed"),
        (Fate::CrashUnderLoad, json!("Crash"), "ServiceCrashed"),
        (Fate::Unschedulable, json!("Unschedulable"), "Unschedulable"),
        (Fate::Quota, json!("Unschedulable"), "QuotaExceeded"),
        (Fate::NoImage, json!("Infrastructure"), "ImagePullBackOff"),
        (Fate::NeedsContainers, json!("Infrastructure"), "NeedsAttention"),
        (Fate::NeverReady, json!("StartTimeout"), "DeadlineExceeded"),
        (Fate::Lost, json!("Infrastructure"), "ServiceLost"),
        (Fate::Unmet(0.2), json!("ObjectiveUnmet"), "ObjectiveUnmet"),
        (Fate::OtherMetric, json!(null), "ResultMissing"),
        (Fate::Silent, json!("Infrastructure"), "ResultMissing"),
        (Fate::ClientFails, json!("Infrastructure"), "ClientFailed"),
        (Fate::ClientHangs, json!("Infrastructure"), "DeadlineExceeded"),
    ] {
        let mut simulation = Simulation::new();
        simulation.put(trial(None));
        run_all(&mut simulation, |_| fate);
        let known = outcome(&simulation);
        assert_eq!((&known["failure"], &known["reason"]), (&failure, &json!(reason)), "{fate:?}: {known}");
        assert_eq!(types(&simulation).last().unwrap(), &("Failed".to_owned(), "True".to_owned()), "{fate:?}");
        assert!(!read::text(&known, "/message").is_empty(), "{fate:?}");
        assert_eq!(leftovers(&simulation), Vec::<String>::new(), "{fate:?}");
    }
}

#[test]
fn what_a_users_own_client_does_is_an_answer_about_the_candidate() {
    let client = json!({"spec": {"template": {"spec": {"containers": [{"name": "pi", "image": "client:1"}]}}}});
    for (fate, failure, reason) in [
        (Fate::Silent, "ObjectiveUnmet", "ResultMissing"),
        (Fate::ClientFails, "ObjectiveUnmet", "ClientFailed"),
        (Fate::ClientHangs, "ObjectiveUnmet", "DeadlineExceeded"),
    ] {
        let mut simulation = Simulation::new();
        simulation.put(trial(Some(&client)));
        run_all(&mut simulation, |_| fate);
        let known = outcome(&simulation);
        assert_eq!((&known["failure"], &known["reason"]), (&json!(failure), &json!(reason)), "{known}");
    }
    let mut simulation = Simulation::new();
    simulation.put(trial(Some(&client)));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Silent);
    simulation.settle();
    simulation.edit(Kind::Trial, "alone", |trial| {
        trial["metadata"]["annotations"]["modelway.io/results"] = r#"{"metrics": {"qps": "7.5"}}"#.into();
    });
    run_all(&mut simulation, |_| Fate::Silent);
    let status = &simulation.get(Kind::Trial, "alone").unwrap()["status"];
    assert_eq!(status["trialResult"]["objectiveMetricsObserved"], json!([{"name": "qps", "value": "7.5"}]));
    assert_eq!(status["outcome"]["state"], "Succeeded");
}

#[test]
fn a_killed_trial_ends_and_leaves_nothing() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Rate(1.0));
    simulation.settle();
    simulation
        .edit(Kind::Trial, "alone", |trial| trial["metadata"]["annotations"]["modelway.io/kill"] = "enough".into());
    run_all(&mut simulation, |_| Fate::Rate(1.0));
    assert_eq!(
        (outcome(&simulation)["state"].clone(), outcome(&simulation)["message"].clone()),
        (json!("Killed"), json!("enough"))
    );
    assert_eq!(leftovers(&simulation), Vec::<String>::new());
}

#[test]
fn a_client_that_is_taken_away_is_not_started_again() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Rate(1.0));
    simulation.settle();
    let key = modelway_plan::Key::new(Kind::Job, NAMESPACE, "alone-client-job");
    simulation.world.remove(&key).unwrap();
    simulation.settle();
    assert_eq!(outcome(&simulation)["reason"], "ClientLost");
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut simulation = Simulation::new();
    simulation.put(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "alone-service", "namespace": NAMESPACE}}),
    );
    simulation.put(trial(None));
    run_all(&mut simulation, |_| Fate::Rate(1.0));
    assert_eq!(outcome(&simulation)["reason"], "NameTaken");
    assert_eq!(leftovers(&simulation), ["alone-service"]);
}

#[test]
fn a_trial_that_makes_no_sense_makes_nothing() {
    for (pointer, value, expected) in [
        ("/spec/servicePodTemplate", json!({}), "containers is empty"),
        ("/spec/objective/constraints", json!([]), "objective.constraints is missing"),
        ("/spec/load", json!({"rate": -3.0}), "load.rate"),
        ("/spec/samplingResult", json!("nonsense"), "invalid type"),
    ] {
        let mut object = trial(None);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        let mut simulation = Simulation::new();
        simulation.put(object);
        run_all(&mut simulation, |_| Fate::Rate(1.0));
        let known = outcome(&simulation);
        assert!(known["reason"] == "InvalidSpec" && read::text(&known, "/message").contains(expected), "{known}");
        assert_eq!(leftovers(&simulation), Vec::<String>::new());
    }
}

#[test]
fn deletion_is_left_to_the_owners_garbage() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    for kind in [Kind::Deployment, Kind::Service] {
        let name = simulation.names(kind).pop().unwrap();
        assert!(read::is_controlled_by(
            simulation.get(kind, &name).unwrap(),
            read::uid(simulation.get(Kind::Trial, "alone").unwrap())
        ));
    }
    simulation
        .edit(Kind::Trial, "alone", |trial| trial["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    let key = modelway_plan::Key::new(Kind::Trial, NAMESPACE, "alone");
    assert_eq!(simulation.plan(&key).actions, []);
}

#[test]
fn what_an_earlier_trial_of_that_name_left_is_waited_for() {
    let mut simulation = Simulation::new();
    simulation.put(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "alone-service", "namespace": NAMESPACE,
        "ownerReferences": [{"kind": "Trial", "name": "alone", "uid": "earlier", "controller": true}]}}),
    );
    simulation.put(trial(None));
    simulation.settle();
    assert_eq!(simulation.condition(Kind::Trial, "alone", "Pending").1, "NameTaken");
    simulation.world.remove(&modelway_plan::Key::new(Kind::Service, NAMESPACE, "alone-service")).unwrap();
    run_all(&mut simulation, |_| Fate::Rate(1.0));
    assert_eq!(outcome(&simulation)["state"], "Succeeded");
}

#[test]
fn readiness_that_flaps_and_a_clock_that_jumps_back_end_nothing() {
    let mut simulation = Simulation::new();
    simulation.put(trial(None));
    simulation.settle();
    play(&mut simulation, &|_| Fate::Rate(3.0));
    simulation.settle();
    let pod = "alone-deployment-x";
    for state in ["False", "True", "False"] {
        simulation.edit(Kind::Pod, pod, |pod| pod["status"]["conditions"][0]["status"] = state.into());
        simulation.now -= k8s_openapi::jiff::SignedDuration::from_mins(7);
        simulation.settle();
        assert!(outcome(&simulation).is_null(), "the client tells what it was like");
    }
    run_all(&mut simulation, |_| Fate::Rate(3.0));
    assert_eq!(outcome(&simulation)["state"], "Succeeded");
}
