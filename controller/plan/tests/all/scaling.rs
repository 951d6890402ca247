//! Predictors whose number of pods follows their load, or is somebody else's to choose.

use modelway_plan::{
    Key, Kind, json as read,
    replicas::{Load, Wanted},
};
use serde_json::{Value, json};

use crate::{
    serving::{by_job, inference, pair, ready, two_versions},
    simulation::{NAMESPACE, Simulation},
};

fn scaled(auto_scale: &Value) -> Value {
    let mut v2 = by_job("v2", "job-2", 10);
    v2["autoScale"] = auto_scale.clone();
    inference(&json!([by_job("v1", "job-1", 90), v2]))
}

fn serving(auto_scale: &Value) -> Simulation {
    let mut simulation = two_versions();
    simulation.put(scaled(auto_scale));
    simulation.run();
    assert_eq!(ready(&simulation), pair("True", "Ready"));
    simulation
}

/// What the routers tell: how many pods the load asks for, and that they follow the newest table, or an older one.
fn tell(simulation: &mut Simulation, replicas: i32, behind: i64) {
    let generation = read::number(simulation.get(Kind::RouteTable, "digits").unwrap(), "/spec/generation");
    let wanted = Wanted { replicas, why: format!("the load asks for {replicas}") };
    let load = Load { followed: Some(generation - behind), wanted: [("v2".to_owned(), wanted)].into() };
    simulation.world.set_load(Key::new(Kind::Inference, NAMESPACE, "digits"), Some(load));
    simulation.settle();
}

fn pods(simulation: &Simulation) -> i64 {
    read::number(simulation.get(Kind::Deployment, "digits-v2").unwrap(), "/spec/replicas")
}

fn state(simulation: &Simulation) -> String {
    let table = simulation.get(Kind::RouteTable, "digits").unwrap();
    let arm = read::items(table, "/spec/arms").find(|arm| arm["name"] == "v2");
    arm.map(|arm| read::text(arm, "/state").to_owned()).unwrap_or_default()
}

fn status(simulation: &Simulation) -> Value {
    simulation.get(Kind::Inference, "digits").unwrap()["status"]["predictorStatuses"][1].clone()
}

#[test]
fn the_number_of_pods_follows_the_load_within_its_bounds() {
    let mut simulation = serving(&json!({"minReplicas": 1, "maxReplicas": 4}));
    assert_eq!(pods(&simulation), 1);
    tell(&mut simulation, 3, 0);
    assert_eq!((pods(&simulation), &status(&simulation)["desiredReplicas"]), (3, &json!(3)));
    assert_eq!(status(&simulation)["scaleReason"], "the load asks for 3");
    assert_eq!(simulation.events.iter().filter(|event| *event == "Scaled").count(), 1);
    assert_eq!(ready(&simulation), pair("True", "Ready"), "one ready pod serves while the others come");
    tell(&mut simulation, 9, 0);
    assert_eq!(pods(&simulation), 4);
    tell(&mut simulation, 0, 0);
    assert_eq!(pods(&simulation), 1);
}

#[test]
fn the_last_pod_goes_once_every_router_holds_requests() {
    let mut simulation = serving(&json!({"minReplicas": 0, "maxReplicas": 4}));
    tell(&mut simulation, 0, 1);
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Asleep", 1), "the table first");
    tell(&mut simulation, 0, 1);
    assert_eq!(pods(&simulation), 1, "one router has not got it yet");
    tell(&mut simulation, 0, 0);
    assert_eq!(pods(&simulation), 0);
    simulation.run();
    assert_eq!((state(&simulation).as_str(), ready(&simulation)), ("Asleep", pair("True", "Ready")));
    assert_eq!(status(&simulation)["trafficPercent"], 10, "it keeps its users");
}

#[test]
fn silent_routers_keep_the_last_pod() {
    let mut simulation = serving(&json!({"minReplicas": 0}));
    let key = Key::new(Kind::Inference, NAMESPACE, "digits");
    let wanted = Wanted { replicas: 0, why: "no demand".to_owned() };
    let load = Load { followed: None, wanted: [("v2".to_owned(), wanted)].into() };
    simulation.world.set_load(key.clone(), Some(load));
    simulation.run();
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Asleep", 1));
    simulation.world.set_load(key, None);
    simulation.run();
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Active", 1), "no word: the number stays");
}

#[test]
fn a_sleeper_wakes_without_leaving_its_arm() {
    let mut simulation = asleep();
    let epoch = |simulation: &Simulation| simulation.get(Kind::RouteTable, "digits").unwrap()["spec"]["epoch"].clone();
    let before = epoch(&simulation);
    tell(&mut simulation, 1, 0);
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Starting", 1));
    assert_eq!(ready(&simulation), pair("True", "Ready"), "requests wait, nothing is wrong");
    simulation.run();
    assert_eq!(state(&simulation), "Active");
    assert_eq!(epoch(&simulation), before, "sleeping changes no answer");
}

fn asleep() -> Simulation {
    let mut simulation = serving(&json!({"minReplicas": 0, "maxReplicas": 4}));
    tell(&mut simulation, 0, 0);
    tell(&mut simulation, 0, 0);
    simulation.run();
    assert_eq!(pods(&simulation), 0);
    simulation
}

#[test]
fn one_that_cannot_wake_sends_its_requests_elsewhere() {
    let mut simulation = asleep();
    tell(&mut simulation, 1, 0);
    simulation.put(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits-v2-a", "namespace": NAMESPACE,
        "labels": {"kubedl.io/inference-name": "digits", "kubedl.io/predictor-name": "v2"}},
        "status": {"containerStatuses": [{"name": "server", "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}}),
    );
    simulation.settle();
    assert_eq!(state(&simulation), "Broken");
    assert_eq!(ready(&simulation), pair("False", "CrashLoopBackOff"));
    // Nobody waits any more, so it sleeps again and the next request finds it asleep.
    tell(&mut simulation, 0, 0);
    tell(&mut simulation, 0, 0);
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Asleep", 0));
}

#[test]
fn one_that_begins_at_zero_sleeps_from_the_start() {
    let mut simulation = two_versions();
    let mut manifest = scaled(&json!({"minReplicas": 0}));
    manifest["spec"]["predictors"][1]["replicas"] = 0.into();
    simulation.put(manifest);
    simulation.run();
    assert_eq!((state(&simulation).as_str(), pods(&simulation)), ("Asleep", 0));
    assert_eq!(ready(&simulation), pair("True", "Ready"));
}

#[test]
fn another_scaler_takes_over_without_a_step() {
    let mut simulation = serving(&json!({"maxReplicas": 8}));
    tell(&mut simulation, 5, 0);
    simulation.run();
    simulation.put(scaled(&json!({"autoScaler": {"kind": "HorizontalPodAutoscaler", "name": "v2"}})));
    simulation.run();
    assert_eq!(pods(&simulation), 5, "not reset to 1");
    assert_eq!(status(&simulation)["scaleReason"], "left to HorizontalPodAutoscaler v2");
    simulation.edit(Kind::Deployment, "digits-v2", |deployment| deployment["spec"]["replicas"] = 2.into());
    // The load is no longer asked about.
    simulation.world.set_load(Key::new(Kind::Inference, NAMESPACE, "digits"), None);
    simulation.run();
    assert_eq!((pods(&simulation), &status(&simulation)["desiredReplicas"]), (2, &json!(2)));
    simulation.put(scaled(&json!({"maxReplicas": 8})));
    simulation.run();
    assert_eq!(pods(&simulation), 2, "and back without a step");
}

#[test]
fn a_bad_value_is_named_and_what_runs_stays() {
    let mut simulation = serving(&json!({"maxReplicas": 8}));
    tell(&mut simulation, 5, 0);
    for (bad, field) in [
        (json!({"target": 0}), "target"),
        (json!({"minReplicas": 3, "maxReplicas": 2}), "minReplicas"),
        (json!({"window": "soon"}), "window"),
        (json!({"utilization": 1.5}), "utilization"),
    ] {
        simulation.put(scaled(&bad));
        simulation.run();
        assert_eq!(ready(&simulation), pair("False", "InvalidSpec"));
        let live = simulation.get(Kind::Inference, "digits").unwrap();
        let message = read::text(read::condition(live, "Ready").unwrap(), "/message").to_owned();
        assert!(message.contains(&format!("autoScale.{field}")), "{message}");
        assert_eq!(pods(&simulation), 5);
    }
}
