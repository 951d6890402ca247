//! Laws for every order of events: plans are idempotent, they converge to one state, generations only grow.

use modelway_plan::{
    Key, Kind, json as read,
    replicas::{Load, Wanted},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{serving::inference, simulation::Simulation};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Train(u8),
    End(u8, bool),
    Serve(Vec<(u8, u8)>),
    FinishOneBuild(u8),
    FailOneBuild(u8),
    RollOut,
    /// Pods that the load of the first predictor asks for, and how many tables the slowest router is behind.
    Load(u8, u8),
    Turn(u8),
    Pass(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..3).prop_map(Step::Train),
        (0_u8..3, any::<bool>()).prop_map(|(job, succeeded)| Step::End(job, succeeded)),
        prop::collection::vec((0_u8..3, 0_u8..100), 1..3).prop_map(Step::Serve),
        any::<u8>().prop_map(Step::FinishOneBuild),
        any::<u8>().prop_map(Step::FailOneBuild),
        Just(Step::RollOut),
        (0_u8..6, 0_u8..2).prop_map(|(replicas, behind)| Step::Load(replicas, behind)),
        (0_u8..6, 0_u8..2).prop_map(|(replicas, behind)| Step::Load(replicas, behind)),
        any::<u8>().prop_map(Step::Turn),
        any::<u8>().prop_map(Step::Turn),
        (0_u8..8).prop_map(Step::Pass),
    ]
}

fn predictors(arms: &[(u8, u8)]) -> Value {
    let one = |(index, (job, weight)): (usize, &(u8, u8))| {
        let mut one = json!({"name": format!("p{index}"), "model": {"name": "digits", "job": format!("job-{job}")}, "trafficWeight": weight});
        if weight % 2 == 0 {
            one["autoScale"] = json!({"minReplicas": 0, "maxReplicas": 4});
        }
        one
    };
    arms.iter().enumerate().map(one).collect()
}

fn happen(simulation: &mut Simulation, step: &Step) {
    let job_name = |index: &u8| format!("job-{index}");
    match step {
        Step::Train(job) if simulation.get(Kind::Job, &job_name(job)).is_none() => simulation.train(&job_name(job)),
        Step::End(job, succeeded) => {
            let live = simulation.get(Kind::Job, &job_name(job));
            if live.is_some_and(|job| job["status"].is_null()) {
                simulation.end(&job_name(job), *succeeded, "");
            }
        }
        Step::Serve(arms) => simulation.put(inference(&predictors(arms))),
        Step::FinishOneBuild(index) | Step::FailOneBuild(index) => {
            let builds = simulation.running_builds();
            let Some(build) = builds.get(usize::from(*index) % builds.len().max(1)) else { return };
            if matches!(step, Step::FinishOneBuild(_)) {
                simulation.finish_build(build);
            } else {
                simulation.end(build, false, r#"{"error": "connection refused"}"#);
            }
        }
        Step::RollOut => simulation.roll_out(),
        Step::Load(replicas, behind) => load(simulation, *replicas, *behind),
        Step::Turn(index) => {
            let keys = simulation.keys();
            if let Some(key) = keys.get(usize::from(*index) % keys.len().max(1)) {
                simulation.turn(key);
            }
        }
        Step::Pass(seconds) => simulation.pass(std::time::Duration::from_secs(u64::from(*seconds))),
        Step::Train(_) => {}
    }
}

fn load(simulation: &mut Simulation, replicas: u8, behind: u8) {
    let Some(table) = simulation.get(Kind::RouteTable, "digits") else { return };
    let followed = read::number(table, "/spec/generation") - i64::from(behind);
    let wanted = Wanted { replicas: replicas.into(), why: "the load".to_owned() };
    let load = Load { followed: Some(followed), wanted: [("p0".to_owned(), wanted)].into() };
    simulation.world.set_load(Key::new(Kind::Inference, "default", "digits"), Some(load));
}

/// A predictor that has no pods because of its load is one whose requests every router holds.
fn sleepers_are_held(simulation: &Simulation) -> bool {
    let Some(table) = simulation.get(Kind::RouteTable, "digits") else { return true };
    let scaled = simulation.get(Kind::Inference, "digits").is_some_and(|inference| {
        let p0 = read::items(inference, "/spec/predictors").find(|predictor| predictor["name"] == "p0");
        p0.is_some_and(|predictor| predictor["autoScale"].is_object())
    });
    let pods = simulation.get(Kind::Deployment, "digits-p0").map(|live| read::number(live, "/spec/replicas"));
    let arm = read::items(table, "/spec/arms").find(|arm| arm["name"] == "p0");
    !scaled
        || pods != Some(0)
        || arm.is_some_and(|arm| matches!(read::text(arm, "/state"), "Asleep" | "Starting" | "Broken"))
}

/// What must not depend on the order: who serves what, and how much.
fn outcome(simulation: &Simulation) -> Value {
    let deployments = simulation.world.list(Kind::Deployment, "default").map(|deployment| {
        let image = read::annotation(deployment, "modelway.io/model-image");
        json!([read::name(deployment), image.map(modelway_plan::resolve::digest_of), deployment["spec"]["replicas"]])
    });
    let status = simulation.get(Kind::Inference, "digits").map(|inference| {
        let ready = simulation.condition(Kind::Inference, "digits", "Ready");
        json!([ready.0, ready.1, inference["status"]["split"]])
    });
    json!([deployments.collect::<Vec<_>>(), simulation.arms("digits"), status])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_history_converges_and_planning_again_is_empty(steps in prop::collection::vec(step(), 1..40)) {
        let mut simulation = Simulation::new();
        for step in &steps {
            happen(&mut simulation, step);
            prop_assert!(sleepers_are_held(&simulation), "no pods, and a router that does not hold");
        }
        simulation.run();
        for key in simulation.keys() {
            prop_assert!(simulation.plan(&key).actions.is_empty(), "{} is not settled", key);
        }
        let generations = &simulation.generations;
        prop_assert!(generations.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", generations);
        let jobs = simulation.world.list(Kind::ModelVersion, "default");
        let mut uids: Vec<&str> = jobs.filter_map(|version| read::label(version, "modelway.io/job-uid")).collect();
        let all = uids.len();
        uids.dedup();
        prop_assert_eq!(all, uids.len(), "one version a job");
        if let Some(inference) = simulation.get(Kind::Inference, "digits") {
            let percents = read::items(inference, "/status/predictorStatuses").map(|one| read::number(one, "/trafficPercent"));
            let sum: i64 = percents.sum();
            let is_whole = sum == 100 || simulation.arms("digits").iter().all(|(_, weight)| *weight == 0);
            let is_left = simulation.condition(Kind::Inference, "digits", "RoutesReady").0 == "False";
            prop_assert!(is_whole || is_left, "{}", sum);
        }
    }

    #[test]
    fn the_order_of_turns_does_not_matter(
        arms in prop::collection::vec((0_u8..3, 1_u8..100), 1..4),
        order in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let start = || {
            let mut simulation = Simulation::new();
            for job in 0..3 {
                happen(&mut simulation, &Step::Train(job));
                happen(&mut simulation, &Step::End(job, true));
            }
            happen(&mut simulation, &Step::Serve(arms.clone()));
            simulation
        };
        let (mut straight, mut shuffled) = (start(), start());
        straight.run();
        for index in order {
            happen(&mut shuffled, &Step::Turn(index));
            if index % 5 == 0 {
                happen(&mut shuffled, &Step::FinishOneBuild(index));
                happen(&mut shuffled, &Step::RollOut);
            }
        }
        shuffled.run();
        prop_assert_eq!(outcome(&straight), outcome(&shuffled));
    }
}
