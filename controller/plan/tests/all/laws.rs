//! Laws for every order of events: plans are idempotent, they converge to one state, generations only grow.

use modelway_plan::{Kind, json as read};
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
        any::<u8>().prop_map(Step::Turn),
        any::<u8>().prop_map(Step::Turn),
        (0_u8..8).prop_map(Step::Pass),
    ]
}

fn predictors(arms: &[(u8, u8)]) -> Value {
    let one = |(index, (job, weight)): (usize, &(u8, u8))| json!({"name": format!("p{index}"), "model": {"name": "digits", "job": format!("job-{job}")}, "trafficWeight": weight});
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
