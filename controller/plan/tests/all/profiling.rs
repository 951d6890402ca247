//! Experiments: which trials they make, how they end, and what they say.

use std::time::Duration;

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::{
    profiling_bench::{Fate, play, run_all},
    simulation::{NAMESPACE, Simulation},
};

pub fn experiment(name: &str) -> Value {
    json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "ProfilingExperiment",
    "metadata": {"name": name, "namespace": NAMESPACE},
    "spec": {
        "tunableParameters": [
            {"category": "resource", "parameters": [{"name": "cpu", "parameterType": "discrete", "feasibleSpace": {"list": ["500m", "1", "2", "4"]}}]},
            {"category": "env", "parameters": [{"name": "BATCH", "parameterType": "int", "feasibleSpace": {"min": "1", "max": "4", "step": "1"}}]}],
        "objective": {"type": "maximize", "objectiveMetricName": "qps", "constraints": [{"metric": "latency.p95", "max": "50ms"}],
            "cost": {"perHour": {"cpu": "0.04"}, "unit": "EUR"}},
        "maxNumTrials": 8,
        "servicePodTemplate": {"template": {"spec": {"containers": [{"name": "s", "image": "server:1",
            "env": [{"name": "BATCH", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}]}}},
    }})
}

pub fn value(trial: &Value, name: &str) -> f64 {
    let values = read::items(trial, "/spec/samplingResult");
    let found = values.filter(|value| value["name"] == name).map(|value| read::text(value, "/value")).next().unwrap();
    let (digits, scale) = match found.strip_suffix('m') {
        Some(milli) => (milli, 1e-3),
        None => (found.trim_end_matches('k'), 1.0),
    };
    digits.parse::<f64>().unwrap() * scale
}

/// More batch is better, and more than two cores are wasted.
pub fn rate(trial: &Value) -> Fate {
    Fate::Rate(100.0 * value(trial, "cpu").min(2.0) * value(trial, "BATCH").sqrt())
}

pub fn status<'a>(simulation: &'a Simulation, name: &str) -> &'a Value {
    &simulation.get(Kind::ProfilingExperiment, name).unwrap()["status"]
}

fn sequence(simulation: &Simulation) -> Vec<(String, Value)> {
    let trials = simulation.world.list(Kind::Trial, NAMESPACE);
    trials.map(|trial| (read::name(trial).to_owned(), trial["spec"]["samplingResult"].clone())).collect()
}

pub fn ran(experiment: Value, fate: impl Fn(&Value) -> Fate) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.put(experiment);
    run_all(&mut simulation, fate);
    simulation
}

#[test]
fn an_experiment_recommends_what_is_best_for_its_price() {
    let simulation = ran(experiment("tune"), rate);
    let status = status(&simulation, "tune");
    let types: Vec<&str> = read::items(status, "/conditions").map(|condition| read::text(condition, "/type")).collect();
    assert_eq!(types, ["Ready", "Created", "Running", "Succeeded"], "{status:#}");
    let found = &status["recommendation"];
    assert_eq!(found["parameters"][1], json!({"name": "BATCH", "value": "4", "category": "env"}), "{found:#}");
    assert_eq!(found["baseline"][0]["value"], "1");
    let gain: f64 = read::text(found, "/gain/estimate").parse().unwrap();
    assert!((1.8..=2.2).contains(&gain), "{found:#}");
    assert!(read::text(found, "/patch").contains("\"BATCH\",\"value\":\"4\""), "{found:#}");
    let total = read::number(status, "/trialsTotal");
    assert_eq!(read::number(status, "/trialsSucceeded"), total);
    assert_eq!(status["trialResultList"].as_array().unwrap().len(), usize::try_from(total).unwrap());
    assert_eq!(
        status["currentOptimalTrial"]["objectiveMetricsObserved"].as_array().unwrap().last().unwrap()["name"],
        "qps"
    );
    assert_eq!(status["report"], "configmap/tune-report");
    assert!(!status["importance"].as_array().unwrap().is_empty() && !status["pareto"].as_array().unwrap().is_empty());
    assert!(["Searching", "Recommended"].iter().all(|reason| simulation.events.iter().any(|event| event == reason)));
}

#[test]
fn the_running_spec_comes_first_and_the_best_are_measured_again() {
    let simulation = ran(experiment("tune"), rate);
    let first = simulation.get(Kind::Trial, "tune-0").unwrap();
    assert_eq!((value(first, "cpu"), value(first, "BATCH")), (1.0, 1.0));
    assert_eq!(read::annotation(first, "modelway.io/why"), Some("what runs now, to compare with"));
    let confirmed = simulation
        .world
        .list(Kind::Trial, NAMESPACE)
        .filter(|trial| read::annotation(trial, "modelway.io/choice").unwrap().contains("\"confirm\""));
    assert_eq!(confirmed.count(), 4, "the best three, and what runs now");
}

#[test]
fn a_search_for_the_highest_rate_begins_where_the_models_expect_it() {
    let expected = |simulation: &Simulation, index: usize| {
        let trial = simulation.get(Kind::Trial, &format!("tune-{index}")).unwrap();
        let choice: Value = serde_json::from_str(read::annotation(trial, "modelway.io/choice").unwrap()).unwrap();
        let Fate::Rate(rate) = rate(trial) else { panic!("{trial:#}") };
        choice["expectedRate"].as_f64().map(|expected| expected / rate)
    };
    let simulation = ran(experiment("tune"), rate);
    assert_eq!((0..3).map(|index| expected(&simulation, index)).collect::<Vec<_>>(), [None; 3], "nothing is known yet");
    // Measured again: what it was before.
    let again = expected(&simulation, 8).unwrap();
    assert!((0.9..1.1).contains(&again), "{again} of what it bears");
    let mut given = experiment("tune");
    given["spec"]["load"] = json!({"rate": 10.0});
    assert_eq!(expected(&ran(given, rate), 8), None, "nothing is looked for");
}

#[test]
fn a_controller_that_is_killed_anywhere_makes_the_same_trials() {
    let whole = sequence(&ran(experiment("tune"), rate));
    for stride in [1, 3] {
        let mut simulation = Simulation::new();
        simulation.put(experiment("tune"));
        // One key at a time, in another order each time, with workloads that move in between.
        for round in 0..400_usize {
            let keys = simulation.keys();
            let key = keys[(round * stride + round / 7) % keys.len()].clone();
            simulation.turn(&key);
            if round % 3 == 0 {
                play(&mut simulation, &rate);
            }
        }
        run_all(&mut simulation, rate);
        assert_eq!(sequence(&simulation), whole, "stride {stride}");
    }
}

#[test]
fn as_many_trials_run_at_once_as_asked_for() {
    let mut object = experiment("tune");
    object["spec"]["parallelism"] = 3.into();
    let mut simulation = Simulation::new();
    simulation.put(object);
    let mut most = 0;
    for _ in 0..200 {
        simulation.settle();
        most = most.max(simulation.names(Kind::Deployment).len());
        play(&mut simulation, &rate);
        simulation.pass(Duration::from_secs(1));
    }
    assert_eq!(most, 3);
    assert_eq!(status(&simulation, "tune")["conditions"].as_array().unwrap().last().unwrap()["type"], "Succeeded");
}

#[test]
fn a_grid_with_a_client_of_ones_own_tries_everything_once() {
    let mut object = experiment("grid");
    let spec = object["spec"].as_object_mut().unwrap();
    spec.insert("algorithm".to_owned(), json!({"algorithmName": "grid"}));
    spec.insert("maxNumTrials".to_owned(), 18.into());
    spec.insert("objective".to_owned(), json!({"type": "maximize", "objectiveMetricName": "qps"}));
    spec.insert(
        "clientTemplate".to_owned(),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "pi", "image": "c:1"}]}}}}),
    );
    let simulation = ran(object, rate);
    let status = status(&simulation, "grid");
    assert_eq!(read::number(status, "/trialsSucceeded"), 16, "{status:#}");
    assert_eq!(
        status["currentOptimalTrial"]["objectiveMetricsObserved"].as_array().unwrap().last().unwrap()["value"],
        "400"
    );
}

#[test]
fn experiments_without_an_answer_say_why() {
    for (fate, reason, words) in [
        (Fate::OutOfMemory, "NothingMeasured", "OutOfMemory"),
        (Fate::Unmet(0.2), "NothingFeasible", "latency.p95 has to be 0.05 and came to 0.2"),
        (Fate::Lost, "NothingMeasured", "the machine failed too often in a row"),
        (Fate::OtherMetric, "ResultMissing", "no trial measured qps"),
    ] {
        let simulation = ran(experiment("tune"), |_| fate);
        let status = status(&simulation, "tune");
        let failed = status["conditions"].as_array().unwrap().last().unwrap();
        assert_eq!((&failed["type"], &failed["reason"]), (&json!("Failed"), &json!(reason)), "{status:#}");
        assert!(read::text(failed, "/message").contains(words), "{failed}");
        assert!(simulation.names(Kind::Deployment).is_empty() && simulation.names(Kind::Pod).is_empty());
        assert!(status["recommendation"].is_null());
    }
}

#[test]
fn failures_of_the_machine_are_tried_again_and_do_not_count() {
    let mut simulation = Simulation::new();
    simulation.put(experiment("tune"));
    let fate = |trial: &Value| if read::name(trial) == "tune-1" { Fate::Lost } else { rate(trial) };
    run_all(&mut simulation, fate);
    let trials = sequence(&simulation);
    let lost = trials[1].1 == trials[trials.iter().position(|(name, _)| name == "tune-2").unwrap()].1;
    assert!(lost, "the candidate of tune-1 is tried again: {trials:?}");
    assert_eq!(status(&simulation, "tune")["conditions"].as_array().unwrap().last().unwrap()["type"], "Succeeded");
}

#[test]
fn too_many_failures_end_it() {
    let mut object = experiment("tune");
    object["spec"]["maxFailedTrials"] = 2.into();
    let simulation = ran(object, |_| Fate::Crash);
    let status = status(&simulation, "tune");
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "tune", "Failed").1, "TooManyFailures");
    assert_eq!(read::number(status, "/trialsFailed"), 3);
}

#[test]
fn time_that_is_spent_ends_what_runs() {
    let mut object = experiment("tune");
    object["spec"]["budget"] = json!({"duration": "10m"});
    let simulation = ran(object, |trial| if read::name(trial) == "tune-2" { Fate::NeverReady } else { rate(trial) });
    let status = status(&simulation, "tune");
    assert_eq!(status["killedTrialList"], json!(["tune-2"]), "{status:#}");
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "tune", "Succeeded").1, "Recommended");
    assert!(simulation.names(Kind::Pod).is_empty());
}

#[test]
fn what_makes_no_sense_makes_no_trial() {
    let parameters = |parameter: Value| json!([{"category": "resource", "parameters": [parameter]}]);
    for (pointer, value, expected) in [
        ("/spec/tunableParameters", parameters(json!({"name": "cpu", "parameterType": "discrete"})), "has no value"),
        (
            "/spec/tunableParameters",
            parameters(json!({"name": "cpu", "feasibleSpace": {"list": ["one"]}})),
            "no quantity",
        ),
        (
            "/spec/tunableParameters",
            parameters(
                json!({"name": "cpu", "parameterType": "int", "feasibleSpace": {"min": "1", "max": "2", "step": "0"}}),
            ),
            "step 0",
        ),
        (
            "/spec/tunableParameters",
            json!([{"category": "env", "parameters": [{"name": "a", "feasibleSpace": {"list": ["1"]}}, {"name": "a", "feasibleSpace": {"list": ["1"]}}]}]),
            "twice",
        ),
        ("/spec/objective", json!({}), "objective.constraints is missing"),
        ("/spec/budget", json!({"duration": "-1s"}), "budget.duration"),
        ("/spec/maxNumTrials", json!("many"), "invalid type"),
    ] {
        let mut object = experiment("tune");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        let simulation = ran(object, rate);
        let failed = status(&simulation, "tune")["conditions"].as_array().unwrap().last().unwrap().clone();
        assert!(failed["reason"] == "InvalidSpec" && read::text(&failed, "/message").contains(expected), "{failed}");
        assert!(simulation.names(Kind::Trial).is_empty());
    }
}

#[test]
fn one_candidate_and_huge_spaces_have_an_answer() {
    let mut one = experiment("one");
    one["spec"]["tunableParameters"] =
        json!([{"category": "env", "parameters": [{"name": "BATCH", "feasibleSpace": {"list": ["2"]}}]}]);
    one["spec"]["objective"]["cost"] = Value::Null;
    let simulation = ran(one, |_| Fate::Rate(5.0));
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "one", "Succeeded").1, "Recommended");

    let mut huge = experiment("huge");
    let parameter = |index: usize| json!({"name": format!("P{index}"), "parameterType": "int", "feasibleSpace": {"min": "1", "max": "50"}});
    huge["spec"]["tunableParameters"] =
        json!([{"category": "env", "parameters": (0..4).map(parameter).collect::<Vec<_>>()}]);
    huge["spec"]["objective"]["cost"] = Value::Null;
    huge["spec"]["maxNumTrials"] = 4.into();
    huge["spec"]["confirm"] = json!({"top": 0});
    let simulation = ran(huge, |trial| Fate::Rate(value(trial, "P0")));
    assert_eq!(read::number(status(&simulation, "huge"), "/candidates"), 10_000);
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "huge", "Succeeded").1, "Recommended");
}

pub fn inference() -> Value {
    json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference", "metadata": {"name": "live", "namespace": NAMESPACE},
        "spec": {"framework": "Custom", "predictors": [{"name": "a", "template": {"spec": {"containers": [{"name": "s", "image": "server:1",
            "env": [{"name": "BATCH", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}]}}}]}})
}

pub fn of_inference(name: &str, apply: &str) -> Value {
    let mut object = experiment(name);
    object["spec"].as_object_mut().unwrap().shift_remove("servicePodTemplate");
    object["spec"]["inferenceRef"] = json!({"name": "live", "predictor": "a", "apply": apply});
    object
}

#[test]
fn a_live_predictor_is_copied_without_its_traffic_and_gets_a_note() {
    let mut simulation = Simulation::new();
    simulation.put(inference());
    simulation.put(of_inference("tune", "Annotate"));
    run_all(&mut simulation, rate);
    let template = &simulation.get(Kind::Trial, "tune-0").unwrap()["spec"]["servicePodTemplate"]["template"];
    assert!(
        template["metadata"]["labels"]
            .as_object()
            .is_none_or(|labels| labels.keys().all(|label| !label.contains("kubedl.io"))),
        "{template}"
    );
    let live = simulation.get(Kind::Inference, "live").unwrap();
    assert_eq!(read::annotation(live, "modelway.io/recommended-by"), Some("tune"));
    let patch: Value = serde_json::from_str(read::annotation(live, "modelway.io/recommendation").unwrap()).unwrap();
    assert_eq!(patch[0], json!({"op": "test", "path": "/spec/predictors/0/name", "value": "a"}));
    assert!(patch[1]["value"].to_string().contains("\"BATCH\",\"value\":\"4\""), "{patch}");
}

#[test]
fn the_second_experiment_on_one_inference_waits() {
    let mut simulation = Simulation::new();
    simulation.put(inference());
    simulation.settle();
    simulation.put(of_inference("second", "Never"));
    simulation.edit(Kind::ProfilingExperiment, "second", |object| {
        object["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z".into();
    });
    simulation.put(of_inference("first", "Never"));
    simulation.settle();
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "second", "Ready").1, "WaitingForExperiment");
    assert!(simulation.names(Kind::Trial).iter().all(|name| name.starts_with("first-")));
    run_all(&mut simulation, rate);
    for name in ["first", "second"] {
        assert_eq!(simulation.condition(Kind::ProfilingExperiment, name, "Succeeded").0, "True", "{name}");
    }
}

#[test]
fn an_inference_that_is_not_there_is_waited_for() {
    let mut simulation = Simulation::new();
    simulation.put(of_inference("tune", "Never"));
    simulation.settle();
    let (state, reason) = simulation.condition(Kind::ProfilingExperiment, "tune", "Ready");
    assert_eq!((state.as_str(), reason.as_str()), ("False", "UnknownPredictor"));
    simulation.put(inference());
    run_all(&mut simulation, rate);
    assert_eq!(simulation.condition(Kind::ProfilingExperiment, "tune", "Succeeded").0, "True");
}

#[test]
fn an_earlier_experiment_is_where_the_next_one_starts() {
    let mut simulation = ran(experiment("earlier"), rate);
    let mut next = experiment("next");
    next["spec"]["warmStart"] = json!([{"experiment": "earlier"}, {"experiment": "never-was"}]);
    simulation.put(next);
    run_all(&mut simulation, rate);
    let third = simulation.get(Kind::Trial, "next-2").unwrap();
    let why = read::annotation(third, "modelway.io/why").unwrap();
    assert!(!why.contains("nothing is known"), "a cold start would draw at random: {why}");
}

#[test]
fn gpus_are_candidates_with_a_price() {
    let mut object = experiment("gpus");
    let gpus =
        json!({"name": "nvidia.com/gpu", "parameterType": "discrete", "feasibleSpace": {"list": ["1", "2", "4", "8"]}});
    let memory =
        json!({"name": "nvidia.com/gpumem", "parameterType": "discrete", "feasibleSpace": {"list": ["8k", "16k"]}});
    object["spec"]["tunableParameters"] = json!([{"category": "resource", "parameters": [gpus, memory]}]);
    object["spec"]["objective"] = json!({"type": "minimize", "objectiveMetricName": "cost",
        "constraints": [{"metric": "latency.p95", "max": "50ms"}, {"metric": "rate", "min": "150"}],
        "cost": {"perHour": {"nvidia.com/gpu": "2.5", "nvidia.com/gpumem": "0.0001"}, "unit": "EUR"}});
    // The largest node has four.
    let fate = |trial: &Value| match value(trial, "nvidia.com/gpu") {
        gpus if gpus > 4.0 => Fate::Unschedulable,
        gpus => Fate::Rate(100.0 * gpus),
    };
    let simulation = ran(object, fate);
    let status = status(&simulation, "gpus");
    let found = &status["recommendation"];
    assert_eq!(found["parameters"][0]["value"], "2", "{status:#}");
    assert_eq!(found["parameters"][1]["value"], "8k", "{found:#}");
    assert!((read::text(found, "/cost").parse::<f64>().unwrap() - 5.8).abs() < 1e-9, "{found:#}");
    let trial = simulation.get(Kind::Trial, "gpus-0").unwrap();
    let template = &trial["spec"]["servicePodTemplate"]["template"]["spec"]["containers"][0];
    assert!(template["resources"]["limits"]["nvidia.com/gpu"].is_null(), "the values are put in for each trial");
    let failed: Vec<&Value> = simulation
        .world
        .list(Kind::Trial, NAMESPACE)
        .filter(|trial| trial["status"]["outcome"]["state"] == "Failed")
        .collect();
    assert!(failed.iter().all(|trial| trial["status"]["outcome"]["reason"] == "Unschedulable"), "{failed:#?}");
}

#[test]
fn a_report_that_is_refused_does_not_keep_the_answer_back() {
    let mut simulation = Simulation::new();
    simulation.world.reject(
        modelway_plan::Key::new(Kind::ConfigMap, NAMESPACE, "tune-report"),
        modelway_plan::world::Rejection {
            applied: String::new(),
            message: "exceeded quota: reports".to_owned(),
            may_pass: true,
            at: simulation.now,
        },
    );
    simulation.put(experiment("tune"));
    run_all(&mut simulation, rate);
    let status = status(&simulation, "tune");
    assert!(status["report"].is_null() && status["recommendation"].is_object(), "{status:#}");
    let last = status["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(last["type"], "Succeeded");
    assert!(read::text(last, "/message").contains("could not be stored: exceeded quota"), "{last}");
}
