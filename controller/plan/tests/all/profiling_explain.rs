//! The chain below an experiment and a trial: from what is told to the pod that it hangs on, and what to do next.

use modelway_plan::{
    Key, Kind,
    explain::{Known, Link, explain, lines},
};

use crate::{
    profiling::{experiment, inference, of_inference, ran, rate},
    profiling_bench::{Fate, play},
    simulation::{NAMESPACE, Simulation},
};

fn link(simulation: &Simulation, kind: Kind, name: &str) -> Link {
    let known = Known { world: &simulation.world, events: &[] };
    explain(known, &Key::new(kind, NAMESPACE, name)).unwrap()
}

fn told(simulation: &Simulation, kind: Kind, name: &str) -> String {
    lines(&link(simulation, kind, name)).join("\n")
}

fn cause(simulation: &Simulation, name: &str) -> String {
    let link = link(simulation, Kind::ProfilingExperiment, name);
    link.cause().map_or(String::new(), |cause| format!("{} {}: {}", cause.kind, cause.name, cause.text))
}

#[test]
fn an_experiment_that_came_to_nothing_ends_at_the_trials_that_failed() {
    let mut object = experiment("tune");
    object["spec"]["maxFailedTrials"] = 2.into();
    let simulation = ran(object, |_| Fate::OutOfMemory);
    let text = told(&simulation, Kind::ProfilingExperiment, "tune");
    assert!(text.starts_with("!!  ProfilingExperiment tune  TooManyFailures: "), "{text}");
    assert!(text.contains("\n  !!  Trial tune-0  failed: OutOfMemory, OOMKilled: "), "{text}");
    assert!(text.contains("\nCause: Trial tune-0: failed: OutOfMemory"), "{text}");
    assert!(text.contains("\nNext: mend what the failed trials say"), "{text}");
    let trial = told(&simulation, Kind::Trial, "tune-0");
    assert!(trial.starts_with("!!  Trial tune-0  failed: OutOfMemory"), "{trial}");
    assert!(trial.contains("\nNext: give such candidates more memory"), "{trial}");
}

#[test]
fn failed_trials_of_an_experiment_that_succeeded_are_answers() {
    let fate = |trial: &serde_json::Value| {
        if trial["metadata"]["name"] == "tune-1" { Fate::Crash } else { rate(trial) }
    };
    let simulation = ran(experiment("tune"), fate);
    let text = told(&simulation, Kind::ProfilingExperiment, "tune");
    assert!(text.starts_with("ok  ProfilingExperiment tune  Recommended: "), "{text}");
    assert!(text.contains("\n  ok  Trial tune-1  failed: Crash, ServiceCrashed: "), "{text}");
    assert!(!text.contains("Cause:") && text.contains("\nNext: apply status.recommendation.patch"), "{text}");
}

#[test]
fn constraints_that_nothing_meets_are_the_cause_themselves() {
    let simulation = ran(experiment("tune"), |_| Fate::Unmet(0.2));
    assert!(cause(&simulation, "tune").starts_with("ProfilingExperiment tune: NothingFeasible: "));
    assert!(told(&simulation, Kind::ProfilingExperiment, "tune").contains("\nNext: relax the constraint"));
}

#[test]
fn a_trial_that_waits_leads_to_its_pod() {
    let mut simulation = Simulation::new();
    simulation.put(experiment("tune"));
    for _ in 0..3 {
        simulation.settle();
        play(&mut simulation, &|_: &serde_json::Value| Fate::Unschedulable);
    }
    simulation.settle();
    let text = told(&simulation, Kind::ProfilingExperiment, "tune");
    assert!(text.starts_with("... ProfilingExperiment tune  Searching: "), "{text}");
    assert!(text.contains("\n  ... Trial tune-0  Unschedulable: "), "{text}");
    assert!(text.contains("    !!  Pod ") || text.contains("      !!  Pod "), "{text}");
    assert!(text.contains("\nCause: Pod ") && text.contains("Unschedulable"), "{text}");
}

#[test]
fn one_that_waits_for_its_inference_says_so() {
    let mut simulation = Simulation::new();
    simulation.put(of_inference("tune", "Never"));
    simulation.settle();
    let text = told(&simulation, Kind::ProfilingExperiment, "tune");
    assert!(text.starts_with("!!  ProfilingExperiment tune  UnknownPredictor: there is no Inference live"), "{text}");
    simulation.put(inference());
    simulation.put(of_inference("zwei", "Never"));
    simulation.edit(Kind::ProfilingExperiment, "zwei", |object| {
        object["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z".into();
    });
    simulation.settle();
    let text = told(&simulation, Kind::ProfilingExperiment, "zwei");
    assert!(text.starts_with("... ProfilingExperiment zwei  WaitingForExperiment: "), "{text}");
    assert!(text.contains("\nNext: wait until the other one has ended"), "{text}");
}

#[test]
fn many_failed_trials_do_not_fill_the_screen() {
    let mut object = experiment("tune");
    object["spec"]["maxNumTrials"] = 16.into();
    object["spec"]["maxFailedTrials"] = 9.into();
    let simulation = ran(object, |_| Fate::Crash);
    let text = told(&simulation, Kind::ProfilingExperiment, "tune");
    assert_eq!(text.matches("Trial tune-").count(), 6, "five, and the cause: {text}");
    assert!(text.contains("5 earlier failed trials are not shown"), "{text}");
    assert!(text.contains("Trial tune-9"), "the newest, by number: {text}");
}
