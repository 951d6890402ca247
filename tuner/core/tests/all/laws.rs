//! What holds for every search.

use modelway_tune::baseline::{Baseline, next};
use modelway_tune::belief::Problem;
use modelway_tune::frontier::{convergence, pareto};
use modelway_tune::history::{Failure, Outcome, Trial};
use modelway_tune::insight::{importance, sensitivity};
use modelway_tune::recommend::{recommend, shortfalls};
use modelway_tune::space::{Parameter, Space};
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, SpecError, Transform};
use modelway_tune::stop::{Limits, Stop, Used, stop};
use modelway_tune::suggest::{Reason, suggest};
use proptest::prelude::*;

fn spec() -> Spec {
    let parameters = vec![
        Parameter::integer("threads", 1, 4, 1).unwrap().as_resource(),
        Parameter::discrete("batch", &[1.0, 2.0, 4.0, 8.0, 16.0]).unwrap(),
        Parameter::categorical("engine", ["a", "b"]).unwrap(),
    ];
    let space = Space::product(parameters, 0).unwrap();
    let cost = (0..space.len()).map(|candidate| 1.0 + space.indices(candidate)[0] as f64).collect();
    Spec {
        space,
        objective: Objective::Metric {
            metric: "rate".to_owned(),
            goal: Goal::Maximize,
            transform: Transform::LOG,
            per_cost: true,
        },
        constraints: vec![Constraint {
            metric: "latency".to_owned(),
            bound: Bound::AtMost(50.0),
            transform: Transform::LOG,
        }],
        cost: Some(cost),
        baseline: Some(0),
        sources: Vec::new(),
    }
}

/// A small server: more threads and larger batches are faster, up to a point; the largest batch on one thread crashes.
fn measure(spec: &Spec, candidate: usize, unit: f64) -> Trial {
    let levels = spec.space.indices(candidate);
    let (threads, batch) = (levels[0] as f64 + 1.0, f64::from(1 << levels[1]));
    if threads < 2.0 && batch > 8.0 {
        return Trial::failed(candidate, Failure::OutOfMemory);
    }
    let rate = threads.powf(0.8) * batch.powf(0.6) * if levels[2] == 0 { 1.0 } else { 0.8 };
    Trial::measured(candidate, [("rate", rate * unit), ("latency", 8.0 * batch / threads.sqrt())])
}

fn search(spec: &Spec, seed: u64, count: usize, unit: f64) -> Vec<Trial> {
    let problem = Problem::new(spec);
    let mut trials: Vec<Trial> = Vec::new();
    for _ in 0..count {
        let Some(proposal) = suggest(&problem, &trials, seed, 1).first().copied() else { break };
        trials.push(measure(spec, proposal.candidate, unit));
    }
    trials
}

fn candidates(trials: &[Trial]) -> Vec<usize> {
    trials.iter().map(|trial| trial.candidate).collect()
}

#[test]
fn any_prefix_goes_on_as_the_whole_did() {
    let spec = spec();
    let whole = search(&spec, 3, 12, 1.0);
    for known in 0..whole.len() {
        let again = suggest(&Problem::new(&spec), &whole[..known], 3, 1);
        assert_eq!(again[0].candidate, whole[known].candidate, "after {known}");
    }
}

#[test]
fn running_spec_is_measured_first() {
    let first = suggest(&Problem::new(&spec()), &[], 9, 1)[0];
    assert_eq!((first.candidate, first.reason), (0, Reason::Start));
}

#[test]
fn every_candidate_is_proposed_once_and_then_none() {
    let mut spec = spec();
    spec.space = spec.space.retain(|levels| levels[1].number == Some(4.0)).unwrap();
    spec.cost = Some(vec![1.0; spec.space.len()]);
    let trials = search(&spec, 1, 100, 1.0);
    let mut tried = candidates(&trials);
    tried.sort_unstable();
    assert_eq!(tried, (0..spec.space.len()).collect::<Vec<_>>());
    let problem = Problem::new(&spec);
    let limits = Limits { max_trials: 100, expected_improvement: 0.0, ..Limits::default() };
    assert_eq!(stop(&problem, &trials, 1, &limits, Used::default()), Some(Stop::Exhausted));
}

#[test]
fn one_candidate_is_enough() {
    let mut spec = spec();
    spec.space =
        spec.space.retain(|levels| levels[0].text == "2" && levels[1].text == "2" && levels[2].text == "a").unwrap();
    spec.cost = Some(vec![1.0]);
    let trials = search(&spec, 1, 5, 1.0);
    assert_eq!(candidates(&trials), [0]);
    let problem = Problem::new(&spec);
    let belief = problem.believe(&trials);
    assert_eq!(recommend(&problem, &belief, &trials).unwrap().candidate, 0);
    assert!(importance(&problem, &belief).iter().all(|found| found.total < 1e-9));
    assert!(sensitivity(&problem, &belief, 0).is_empty());
}

#[test]
fn nothing_good_says_which_limit_and_by_how_much() {
    let mut spec = spec();
    spec.constraints[0].bound = Bound::AtMost(1.0);
    let trials = search(&spec, 5, 8, 1.0);
    let problem = Problem::new(&spec);
    assert_eq!(recommend(&problem, &problem.believe(&trials), &trials), None);
    let shortfall = &shortfalls(&problem, &trials)[0];
    assert!(shortfall.metric == "latency" && !shortfall.met && shortfall.best >= 4.0, "{shortfall:?}");
}

#[test]
fn only_failures_do_not_end_in_a_panic() {
    let spec = spec();
    let problem = Problem::new(&spec);
    let mut trials = Vec::new();
    for _ in 0..10 {
        let next = suggest(&problem, &trials, 0, 1)[0].candidate;
        trials.push(Trial::failed(next, Failure::Crash));
    }
    assert_eq!(recommend(&problem, &problem.believe(&trials), &trials), None);
    let limits = Limits { max_failed: Some(9), ..Limits::default() };
    assert_eq!(stop(&problem, &trials, 0, &limits, Used::default()), Some(Stop::Failures));
}

#[test]
fn missing_and_broken_measurements_are_no_numbers() {
    let spec = spec();
    let problem = Problem::new(&spec);
    let trials = [
        Trial::measured(0, [("rate", f64::NAN), ("latency", f64::INFINITY)]),
        Trial::measured(7, []),
        Trial::measured(11, [("rate", 3.0)]),
        Trial::measured(12, [("rate", 0.0), ("latency", -1.0)]),
    ];
    let next = suggest(&problem, &trials, 2, 2);
    assert_eq!(next.len(), 2);
    let belief = problem.believe(&trials);
    assert!(belief.score.iter().all(|score| score.mean.is_finite() && score.sd.is_finite()));
    assert!(!trials[2].meets(&spec), "a constraint that was not measured does not hold");
}

#[test]
fn machine_failures_teach_nothing_and_may_be_tried_again() {
    let spec = spec();
    let problem = Problem::new(&spec);
    let with = [Trial::failed(0, Failure::Infrastructure)];
    assert_eq!(suggest(&problem, &with, 4, 1), suggest(&problem, &[], 4, 1));
}

#[test]
fn stops_when_little_is_left_to_gain() {
    let spec = spec();
    let problem = Problem::new(&spec);
    let mut trials = Vec::new();
    let limits = Limits { max_trials: 40, ..Limits::default() };
    let reason = loop {
        if let Some(reason) = stop(&problem, &trials, 6, &limits, Used::default()) {
            break reason;
        }
        let next = suggest(&problem, &trials, 6, 1)[0].candidate;
        trials.push(measure(&spec, next, 1.0));
    };
    assert_eq!(reason, Stop::LittleToGain);
    assert!(trials.len() < 25, "{}", trials.len());
    let best = (0..spec.space.len())
        .filter_map(|candidate| {
            let trial = measure(&spec, candidate, 1.0);
            trial.meets(&spec).then(|| trial.value(&spec)).flatten()
        })
        .fold(0.0, f64::max);
    let found = convergence(&spec, &trials).pop().flatten().unwrap();
    assert!(found >= 0.95 * best, "{found} of {best}");
    let report = recommend(&problem, &problem.believe(&trials), &trials).unwrap();
    let gain = report.gain.unwrap();
    assert!(report.confident && gain.low <= gain.estimate && gain.estimate <= gain.high && gain.low > 1.0);
}

#[test]
fn budgets_end_a_search() {
    let spec = spec();
    let problem = Problem::new(&spec);
    let limits = Limits { seconds: Some(60.0), money: Some(5.0), ..Limits::default() };
    let used = |seconds, money| stop(&problem, &[], 0, &limits, Used { seconds, money });
    assert_eq!((used(60.0, 0.0), used(0.0, 5.0), used(1.0, 1.0)), (Some(Stop::Time), Some(Stop::Money), None));
}

#[test]
fn what_matters_is_seen() {
    let spec = spec();
    let trials = search(&spec, 2, 25, 1.0);
    let problem = Problem::new(&spec);
    let importance = importance(&problem, &problem.believe(&trials));
    let share = |name: &str| importance.iter().find(|found| found.parameter == name).unwrap().total;
    assert!(share("batch") > share("engine"), "{importance:?}");
    assert!(importance.iter().all(|found| found.alone <= found.total + 1e-9));
}

#[test]
fn front_holds_what_nothing_beats() {
    let spec = spec();
    let trials: Vec<Trial> = [0, 9, 19, 29, 5].iter().map(|candidate| measure(&spec, *candidate, 1.0)).collect();
    let front = pareto(&spec, &trials);
    assert!(front.contains(&0), "the cheapest: {front:?}");
    let mut with_worse = trials.clone();
    with_worse.push(Trial::measured(39, [("rate", 0.1), ("latency", 900.0)]));
    assert_eq!(pareto(&spec, &with_worse), front);
}

#[test]
fn cheapest_spec_that_holds_is_an_objective_too() {
    let mut spec = spec();
    spec.objective = Objective::Cost;
    spec.constraints =
        vec![Constraint { metric: "rate".to_owned(), bound: Bound::AtLeast(6.0), transform: Transform::LOG }];
    let trials = search(&spec, 8, 20, 1.0);
    let problem = Problem::new(&spec);
    let found = recommend(&problem, &problem.believe(&trials), &trials).unwrap();
    let cheapest = (0..spec.space.len()).filter(|candidate| measure(&spec, *candidate, 1.0).meets(&spec));
    let cheapest = cheapest.map(|candidate| spec.cost_of(candidate)).fold(f64::INFINITY, f64::min);
    assert!((spec.cost_of(found.candidate) - cheapest).abs() < 1e-9);
}

#[test]
fn says_what_is_wrong_with_a_question() {
    let check = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        spec.check()
    };
    assert_eq!(check(|_| ()), Ok(()));
    assert_eq!(check(|spec| spec.cost = None), Err(SpecError::NoCost));
    assert!(matches!(check(|spec| spec.cost = Some(vec![1.0])), Err(SpecError::CostLength { .. })));
    assert!(matches!(check(|spec| spec.cost.as_mut().unwrap()[3] = 0.0), Err(SpecError::Cost { candidate: 3, .. })));
    assert!(matches!(check(|spec| spec.baseline = Some(40)), Err(SpecError::Baseline { .. })));
    assert!(matches!(check(|spec| spec.constraints[0].bound = Bound::AtMost(f64::NAN)), Err(SpecError::Limit { .. })));
    assert!(matches!(
        check(|spec| spec.constraints.push(spec.constraints[0].clone())),
        Err(SpecError::TwoLimits { .. })
    ));
}

#[test]
fn question_and_trials_survive_json() {
    let spec = spec();
    let trials = search(&spec, 0, 6, 1.0);
    let text = serde_json::to_string(&(&spec, &trials)).unwrap();
    let (spec_again, trials_again): (Spec, Vec<Trial>) = serde_json::from_str(&text).unwrap();
    assert_eq!((&spec_again, &trials_again), (&spec, &trials));
}

#[test]
fn rivals_try_each_candidate_once() {
    let spec = spec();
    let problem = Problem::new(&spec);
    for baseline in [Baseline::Random, Baseline::Grid, Baseline::Sobol, Baseline::Tpe, Baseline::Forest] {
        let mut trials = Vec::new();
        while let Some(candidate) = next(baseline, &problem, &trials, 5) {
            trials.push(measure(&spec, candidate, 1.0));
        }
        let tried: std::collections::BTreeSet<usize> = candidates(&trials).into_iter().collect();
        assert_eq!((trials.len(), tried.len()), (40, 40), "{baseline:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn proposes_only_what_is_neither_tried_nor_running(seed in 0u64..1000, count in 1usize..14, width in 1usize..5) {
        let spec = spec();
        let mut trials = search(&spec, seed, count, 1.0);
        if let Some(last) = trials.last_mut() {
            last.outcome = Outcome::Pending;
        }
        let problem = Problem::new(&spec);
        let proposals = suggest(&problem, &trials, seed, width);
        prop_assert_eq!(proposals.len(), width);
        let mut seen: std::collections::BTreeSet<usize> = candidates(&trials).into_iter().collect();
        for proposal in proposals {
            prop_assert!(seen.insert(proposal.candidate), "{} twice", proposal.candidate);
        }
    }

    #[test]
    fn order_of_the_results_does_not_matter(seed in 0u64..1000, count in 4usize..12, turn in 0usize..12) {
        let spec = spec();
        let trials = search(&spec, seed, count, 1.0);
        let mut turned = trials.clone();
        turned.rotate_left(turn % count);
        turned.reverse();
        let problem = Problem::new(&spec);
        prop_assert_eq!(suggest(&problem, &trials, seed, 2), suggest(&problem, &turned, seed, 2));
    }

    #[test]
    fn unit_of_a_metric_does_not_matter(seed in 0u64..1000, power in -8i32..9) {
        let spec = spec();
        // Powers of two change no digit; what is left is the rounding of the logarithm.
        let scaled = search(&spec, seed, 9, 2f64.powi(power));
        prop_assert_eq!(candidates(&scaled), candidates(&search(&spec, seed, 9, 1.0)));
    }
}
