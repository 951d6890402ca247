//! Whole experiments on invented services.

use modelway_tune::belief::Problem;
use modelway_tune::experiment::{
    Algorithm, Attempt, Confirm, End, Missed, Next, Purpose, Question, QuestionError, Verdict, Why, next,
};
use modelway_tune::history::{Failure, Measurement, Outcome, Trial};
use modelway_tune::space::{Parameter, Space};
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, Transform};
use modelway_tune::stop::{Limits, Stop};
use proptest::prelude::*;

/// Seconds of each trial.
const TRIAL: f64 = 60.0;

fn question() -> Question {
    let parameters = vec![
        Parameter::integer("threads", 1, 4, 1).unwrap().as_resource(),
        Parameter::discrete("batch", &[1.0, 2.0, 4.0, 8.0]).unwrap(),
    ];
    let space = Space::product(parameters, 0).unwrap();
    let cost = (0..space.len()).map(|candidate| 1.0 + space.indices(candidate)[0] as f64).collect();
    let objective = Objective::Metric {
        metric: "rate".to_owned(),
        goal: Goal::Maximize,
        transform: Transform::LOG,
        per_cost: true,
    };
    let constraints =
        vec![Constraint { metric: "latency".to_owned(), bound: Bound::AtMost(50.0), transform: Transform::LOG }];
    let spec = Spec { space, objective, constraints, cost: Some(cost), baseline: Some(0), sources: Vec::new() };
    Question { seed: 5, ..Question::new(spec) }
}

fn serve(question: &Question, candidate: usize) -> Outcome {
    let levels = question.spec.space.indices(candidate);
    let (threads, batch) = (levels[0] as f64 + 1.0, f64::from(1 << levels[1]));
    Trial::measured(candidate, [("rate", threads * batch.powf(0.6)), ("latency", 8.0 * batch / threads.sqrt())]).outcome
}

fn broken(failure: Failure) -> impl Fn(&Question, usize) -> Outcome {
    move |_, _| Outcome::Failed(failure)
}

/// Carries an experiment out, one trial after the other; gives what was tried, why, and how it ended.
fn carry_out(question: &Question, serve: impl Fn(&Question, usize) -> Outcome) -> (Vec<Attempt>, Vec<Why>, End) {
    let problem = Problem::new(&question.spec);
    let (mut attempts, mut reasons, mut elapsed): (Vec<Attempt>, Vec<Why>, f64) = (Vec::new(), Vec::new(), 0.0);
    loop {
        match next(question, &problem, &attempts, elapsed) {
            Next::Start { index, candidate, purpose, why } => {
                let begun = Attempt::pending(index, candidate, purpose, elapsed);
                attempts.push(Attempt { outcome: serve(question, candidate), seconds: TRIAL, ..begun });
                reasons.push(why);
                elapsed += TRIAL;
            }
            Next::Wait => unreachable!("nothing runs"),
            Next::Finish(end) => return (attempts, reasons, *end),
        }
        assert!(attempts.len() < 100, "no end");
    }
}

#[test]
fn experiment_searches_then_measures_the_best_again() {
    let (attempts, reasons, end) = carry_out(&question(), serve);
    let again = attempts.iter().position(|attempt| attempt.purpose == Purpose::Confirm).unwrap();
    assert!(attempts[again..].iter().all(|attempt| attempt.purpose == Purpose::Confirm));
    assert_eq!((attempts.len() - again, end.confirmed, end.trials), (4, 4, again));
    assert_eq!((reasons[0], attempts[0].candidate), (Why::Baseline, 0));
    assert!(matches!(reasons[again], Why::Confirm { rank: 0 }));
    assert_eq!((*reasons.last().unwrap(), attempts.last().unwrap().candidate), (Why::Compare, 0));
    let Verdict::Recommended(found) = &end.verdict else { panic!("{:?}", end.verdict) };
    let best = |candidate: &usize| serve_value(&question(), *candidate);
    let optimum = (0..16)
        .filter(|candidate| best(candidate).is_some())
        .max_by(|left, right| best(left).unwrap().total_cmp(&best(right).unwrap()));
    let share = best(&found.candidate).unwrap() / best(&optimum.unwrap()).unwrap();
    assert!(share > 0.95 && found.gain.unwrap().estimate > 1.0, "{share}, {found:?}");
    let hours = attempts.len() as f64 * TRIAL / 3600.0;
    assert!(end.money.is_some_and(|money| money > hours && money < 4.0 * hours), "{:?}", end.money);
}

/// The objective, where the constraint holds.
fn serve_value(question: &Question, candidate: usize) -> Option<f64> {
    let trial = Trial { candidate, outcome: serve(question, candidate) };
    trial.meets(&question.spec).then(|| trial.value(&question.spec)).flatten()
}

#[test]
fn what_is_recommended_was_measured_again_even_when_the_first_number_flattered_another() {
    let mut question = question();
    question.confirm.top = 1;
    question.limits.max_trials = 3;
    let problem = Problem::new(&question.spec);
    let (flattered, honest) = (11, 15);
    let measured = |index, candidate, purpose, per_cost: f64| {
        let value = per_cost * question.spec.cost_of(candidate);
        let rate = Measurement { value, variance: (0.05 * value).powi(2) };
        let values = [("rate".to_owned(), rate), ("latency".to_owned(), Measurement { value: 10.0, variance: 0.1 })];
        let outcome = Outcome::Measured(values.into());
        Attempt { outcome, ..Attempt::pending(index, candidate, purpose, 0.0) }
    };
    let mut attempts = vec![
        measured(0, 0, Purpose::Search, 1.0),
        measured(1, flattered, Purpose::Search, 4.0),
        measured(2, honest, Purpose::Search, 3.5),
    ];
    for (index, expected, per_cost) in [(3, flattered, 1.8), (4, 0, 1.0), (5, honest, 3.5)] {
        let Next::Start { candidate, purpose, .. } = next(&question, &problem, &attempts, 0.0) else { panic!() };
        assert_eq!((candidate, purpose), (expected, Purpose::Confirm));
        attempts.push(measured(index, candidate, Purpose::Confirm, per_cost));
    }
    let Next::Finish(end) = next(&question, &problem, &attempts, 0.0) else { panic!() };
    assert!(matches!(&end.verdict, Verdict::Recommended(found) if found.candidate == honest), "{end:?}");
}

#[test]
fn machine_that_fails_is_tried_again_and_then_given_up() {
    let question = question();
    let problem = Problem::new(&question.spec);
    let fail = |index, candidate| Attempt {
        outcome: Outcome::Failed(Failure::Infrastructure),
        ..Attempt::pending(index, candidate, Purpose::Search, 0.0)
    };
    let mut attempts = Vec::new();
    for retry in 0..=question.infrastructure_retries {
        let Next::Start { index, candidate, .. } = next(&question, &problem, &attempts, 0.0) else { panic!() };
        assert_eq!((index, candidate), (retry, 0), "the same candidate, another trial");
        attempts.push(fail(index, candidate));
    }
    let Next::Finish(end) = next(&question, &problem, &attempts, 0.0) else { panic!() };
    assert_eq!((end.stop, end.trials, end.failed), (Stop::Machine, 0, 0));
    // One good answer in between, and the count begins anew.
    attempts.insert(2, Attempt { outcome: serve(&question, 0), ..Attempt::pending(2, 0, Purpose::Search, 0.0) });
    attempts.iter_mut().enumerate().for_each(|(index, attempt)| attempt.index = index);
    assert!(matches!(next(&question, &problem, &attempts, 0.0), Next::Start { .. }));
}

#[test]
fn one_candidate_is_measured_and_recommended() {
    let mut question = question();
    question.spec.space = question.spec.space.retain(|levels| levels[0].text == "1" && levels[1].text == "1").unwrap();
    question.spec.cost = Some(vec![1.0]);
    let (attempts, _, end) = carry_out(&question, serve);
    assert_eq!((end.stop, end.candidates, end.trials), (Stop::Exhausted, 1, 1));
    assert_eq!(attempts.len(), 2, "once, and once again");
    assert!(matches!(end.verdict, Verdict::Recommended(_)));
}

#[test]
fn nothing_good_enough_says_which_constraint_and_by_how_much() {
    let mut question = question();
    question.spec.constraints[0].bound = Bound::AtMost(1.0);
    question.limits.max_trials = 16;
    let (_, _, end) = carry_out(&question, serve);
    let Verdict::NothingMeets { shortfalls } = &end.verdict else { panic!("{:?}", end.verdict) };
    assert_eq!((shortfalls[0].metric.as_str(), shortfalls[0].met), ("latency", false));
    assert!((shortfalls[0].limit - 1.0).abs() < 1e-9 && (shortfalls[0].best - 4.0).abs() < 1e-9, "{shortfalls:?}");
}

#[test]
fn objectives_met_at_no_rate_say_by_how_much_too() {
    let mut question = question();
    question.limits.max_trials = 4;
    question.limits.max_failed = Some(1);
    let problem = Problem::new(&question.spec);
    let missed = |value| vec![Missed { metric: "latency.p95".to_owned(), bound: Bound::AtMost(0.05), value }];
    let attempt = |index: usize, value| Attempt {
        outcome: Outcome::Failed(Failure::ObjectiveUnmet),
        missed: missed(value),
        ..Attempt::pending(index, index, Purpose::Search, 0.0)
    };
    let attempts: Vec<Attempt> = [0.4, 0.2, 0.3, 0.9].into_iter().enumerate().map(|(i, v)| attempt(i, v)).collect();
    let Next::Finish(end) = next(&question, &problem, &attempts, 0.0) else { panic!() };
    assert_eq!((end.stop, end.failed), (Stop::Trials, 0), "an unmet objective is no failed trial");
    let Verdict::NothingMeets { shortfalls } = &end.verdict else { panic!("{:?}", end.verdict) };
    assert_eq!((shortfalls[0].candidate, shortfalls[0].metric.as_str()), (1, "latency.p95"));
}

#[test]
fn failures_end_it_when_there_are_too_many() {
    let mut question = question();
    question.limits.max_failed = Some(2);
    let (attempts, _, end) = carry_out(&question, broken(Failure::Crash));
    assert_eq!((end.stop, attempts.len()), (Stop::Failures, 3));
    assert_eq!(end.verdict, Verdict::NothingRan { failures: [(Failure::Crash, 3)].into() });
}

#[test]
fn trials_that_do_not_measure_the_objective_count_as_failed() {
    let mut question = question();
    question.limits.max_failed = Some(2);
    for value in [f64::NAN, f64::INFINITY] {
        let (attempts, _, end) = carry_out(&question, |_, candidate| {
            Trial::measured(candidate, [("rate", value), ("latency", 1.0)]).outcome
        });
        assert_eq!((end.stop, attempts.len() - end.confirmed), (Stop::Failures, 3));
        assert_eq!(end.verdict, Verdict::NotMeasured { metric: "rate".to_owned() });
    }
}

#[test]
fn time_and_money_end_it_with_enough_left_to_measure_again() {
    let mut question = question();
    question.limits.expected_improvement = 0.0;
    question.limits.seconds = Some(9.5 * TRIAL);
    let (attempts, _, end) = carry_out(&question, serve);
    assert_eq!((end.stop, end.confirmed), (Stop::Time, 4));
    assert!(attempts.len() == 10, "{} trials", attempts.len());
    question.limits.seconds = None;
    question.limits.money = Some(0.25);
    let (_, _, end) = carry_out(&question, serve);
    assert!(end.stop == Stop::Money && end.confirmed >= 1, "{end:?}");
    assert!(end.money.unwrap() < 0.25 + 4.0 / 60.0, "at most one trial too many: {:?}", end.money);
}

#[test]
fn reason_of_the_search_stays_when_measuring_again_uses_up_the_time() {
    let mut question = question();
    question.limits.max_trials = 5;
    question.limits.seconds = Some(9.0 * TRIAL);
    let (attempts, _, end) = carry_out(&question, serve);
    assert_eq!((end.stop, end.trials, attempts.len()), (Stop::Trials, 5, 9));
}

#[test]
fn trials_side_by_side_differ_and_the_rest_waits() {
    let mut question = question();
    question.parallelism = 3;
    question.confirm = Confirm { top: 2, ..Confirm::default() };
    question.limits.max_trials = 7;
    let problem = Problem::new(&question.spec);
    let mut attempts: Vec<Attempt> = Vec::new();
    let end = loop {
        match next(&question, &problem, &attempts, 0.0) {
            Next::Start { index, candidate, purpose, .. } => {
                let same = |other: &Attempt| other.candidate == candidate && other.purpose == purpose;
                assert!(!attempts.iter().any(same));
                attempts.push(Attempt::pending(index, candidate, purpose, 0.0));
                assert!(attempts.iter().filter(|attempt| attempt.is_pending()).count() <= 3);
            }
            Next::Wait => {
                // The youngest ends first.
                let running = attempts.iter_mut().rev().find(|attempt| attempt.is_pending()).unwrap();
                running.outcome = serve(&question, running.candidate);
            }
            Next::Finish(end) => break end,
        }
    };
    assert_eq!((end.trials, end.confirmed, attempts.len()), (7, 3, 10));
    assert!(attempts.iter().all(|attempt| !attempt.is_pending()));
}

#[test]
fn searches_without_a_model_try_everything_once() {
    for algorithm in [Algorithm::Random, Algorithm::Grid, Algorithm::Sobol] {
        let mut question = Question { algorithm, ..question() };
        question.limits.max_trials = 100;
        question.confirm.top = 0;
        let (attempts, _, end) = carry_out(&question, serve);
        let mut tried: Vec<usize> = attempts.iter().map(|attempt| attempt.candidate).collect();
        tried.sort_unstable();
        assert_eq!((tried, end.stop), ((0..16).collect(), Stop::Exhausted));
    }
    assert_eq!(Algorithm::named("BayesianOpt"), Some(Algorithm::Bayesian));
    assert_eq!(Algorithm::named("hyperband"), None);
}

#[test]
fn questions_without_sense_are_refused() {
    let refused = |change: fn(&mut Question)| {
        let mut question = question();
        change(&mut question);
        matches!(question.check(), Err(QuestionError::Field { .. }))
    };
    assert_eq!(question().check(), Ok(()));
    assert!(refused(|question| question.limits.max_trials = 0));
    assert!(refused(|question| question.parallelism = 0));
    assert!(refused(|question| question.limits.seconds = Some(f64::NAN)));
    assert!(refused(|question| question.limits.expected_improvement = -1.0));
    assert!(refused(|question| question.confirm.stretch = f64::INFINITY));
    assert!(refused(|question| {
        question.limits.money = Some(1.0);
        question.spec.cost = None;
        question.spec.objective = Objective::Metric {
            metric: "rate".to_owned(),
            goal: Goal::Maximize,
            transform: Transform::LOG,
            per_cost: false,
        };
    }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    /// Killed after any trial, read back in any order: the same next step.
    #[test]
    fn any_prefix_in_any_order_goes_on_the_same(seed in 0u64..1000, noise in 0.8f64..1.25) {
        let mut question = Question { seed, limits: Limits { max_trials: 8, ..Limits::default() }, ..question() };
        question.confirm.top = 2;
        let noisy = |question: &Question, candidate: usize| match serve(question, candidate) {
            Outcome::Measured(mut values) => {
                for found in values.values_mut() {
                    *found = Measurement { value: found.value * noise.powi(i32::try_from(candidate % 3).unwrap()), variance: 0.01 };
                }
                Outcome::Measured(values)
            }
            other => other,
        };
        let (whole, _, end) = carry_out(&question, noisy);
        let problem = Problem::new(&question.spec);
        for known in 0..=whole.len() {
            let mut some = whole[..known].to_vec();
            some.reverse();
            let elapsed = known as f64 * TRIAL;
            match next(&question, &problem, &some, elapsed) {
                Next::Start { index, candidate, purpose, .. } => {
                    let expected = &whole[known];
                    prop_assert_eq!((index, candidate, purpose), (known, expected.candidate, expected.purpose));
                }
                other => prop_assert_eq!(other, Next::Finish(Box::new(end.clone()))),
            }
        }
    }
}
