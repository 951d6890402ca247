//! Candidates that are too large for every node are left out, and which those are does not change any more.

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::{
    profiling::{experiment, ran, rate, status, value},
    profiling_bench::run_all,
    simulation::{NAMESPACE, Simulation},
};

fn nodes(cpus: &[&str]) -> std::sync::Arc<[std::collections::BTreeMap<String, String>]> {
    let node =
        |cpu: &&str| [("cpu", *cpu), ("memory", "8Gi")].map(|(name, amount)| (name.to_owned(), amount.to_owned()));
    cpus.iter().map(|cpu| node(cpu).into()).collect()
}

#[test]
fn candidates_above_every_node_are_cut_before_any_trial_and_told() {
    let mut simulation = Simulation::new();
    simulation.world.set_nodes(nodes(&["1", "2500m"]));
    simulation.put(experiment("tune"));
    simulation.settle();
    let found = status(&simulation, "tune");
    assert_eq!((&found["candidates"], &found["leftOut"]), (&json!(12), &json!(4)), "{found:#}");
    assert_eq!(found["nodeSizes"], json!([{"cpu": "2500m"}]));
    // Nodes that come and go meanwhile change no candidate.
    simulation.world.set_nodes(nodes(&["1", "64"]));
    run_all(&mut simulation, rate);
    let found = status(&simulation, "tune");
    assert_eq!(found["candidates"], 12);
    let message = read::text(read::items(found, "/conditions").last().unwrap(), "/message").to_owned();
    assert!(message.contains("4 candidates were left out") && message.contains("cpu 2500m"), "{message}");
    assert!(simulation.world.list(Kind::Trial, NAMESPACE).all(|trial| value(trial, "cpu") < 4.0));
}

#[test]
fn where_nodes_are_made_on_demand_all_candidates_may_be_kept() {
    let mut simulation = Simulation::new();
    simulation.world.set_nodes(nodes(&["1"]));
    let mut object = experiment("tune");
    object["metadata"]["annotations"] = json!({"modelway.io/all-candidates": "true"});
    simulation.put(object);
    simulation.settle();
    assert_eq!(status(&simulation, "tune")["candidates"], 16);
}

#[test]
fn where_nothing_is_known_of_nodes_nothing_is_cut() {
    let simulation = ran(experiment("tune"), rate);
    let found = status(&simulation, "tune");
    assert_eq!(
        (&found["candidates"], &found["leftOut"], &found["nodeSizes"]),
        (&json!(16), &Value::Null, &Value::Null)
    );
}

#[test]
fn when_no_node_has_room_for_anything_it_ends_at_once() {
    let mut simulation = Simulation::new();
    simulation.world.set_nodes(nodes(&["250m"]));
    simulation.put(experiment("tune"));
    simulation.settle();
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "tune", "Failed").1, "Unschedulable");
    assert!(simulation.names(Kind::Trial).is_empty());
}
