//! What the status of an experiment says, and what is told about it.

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason,
    conditions::{READY, State, shortened, whole_second},
    profiling_conditions::{self as conditions, CREATED, FAILED, RUNNING, SUCCEEDED},
    profiling_experiment::{ProfilingExperimentSpec, ProfilingExperimentStatus},
    recommendation::{Estimate, ParameterImportance, Recommendation},
    trial::{Metric, TrialResult, TrialState},
};
use modelway_tune::{
    belief::Problem,
    experiment::{Attempt, End, Question, Verdict},
    frontier::pareto,
    history::Trial,
    insight::importance,
    recommend::{Interval, Shortfall},
    spec::{Goal, Objective, Spec},
    stop::Stop,
};
use serde_json::Value;

use super::{attempts::Tested, load, patch::Change, room, space, trial_status};
use crate::plan::Plan;

/// Candidates of the Pareto front that the status has room for.
const PARETO_MAX: usize = 100;
/// Longest patch that the status has room for; the report has it whole.
const PATCH_MAX: usize = 16_000;

/// Whether nothing is left to do.
pub fn is_over(status: &ProfilingExperimentStatus) -> bool {
    conditions::is_over(&status.conditions)
}

/// The experiment is known.
pub fn begin(status: &mut ProfilingExperimentStatus, now: Timestamp) {
    conditions::set(&mut status.conditions, CREATED, State::True, Reason::Accepted, "the experiment is known", now);
}

/// Another experiment comes first.
pub fn wait_for(status: &mut ProfilingExperimentStatus, first: &str, now: Timestamp) {
    let message = format!("ProfilingExperiment {first} tunes the same Inference and comes first");
    hold(status, Reason::WaitingForExperiment, &message, now);
}

/// Something else has to be there first.
pub fn hold(status: &mut ProfilingExperimentStatus, reason: Reason, message: &str, now: Timestamp) {
    conditions::set(&mut status.conditions, READY, State::False, reason, message, now);
}

/// The search begins.
pub fn start(status: &mut ProfilingExperimentStatus, candidates: usize, left_out: usize, now: Timestamp) {
    status.start_time = Some(whole_second(now).to_string());
    status.candidates = i32::try_from(candidates).ok();
    status.left_out = i32::try_from(left_out).ok().filter(|count| *count > 0);
    let message = format!("{candidates} candidates{}", also_left_out(status));
    conditions::set(&mut status.conditions, RUNNING, State::True, Reason::Searching, &message, now);
    conditions::set(&mut status.conditions, READY, State::False, Reason::Searching, &message, now);
}

/// Which candidates were left out before the first trial, and why.
pub fn left_out(status: &ProfilingExperimentStatus) -> Option<String> {
    let count = status.left_out?;
    let largest = room::told(&status.node_sizes);
    Some(format!("{count} candidates were left out before the first trial: no node has room for them ({largest})"))
}

fn also_left_out(status: &ProfilingExperimentStatus) -> String {
    left_out(status).map_or_else(String::new, |text| format!("; {text}"))
}

/// The search goes on.
pub fn searching(status: &mut ProfilingExperimentStatus, trials: &[Tested], stray: usize, now: Timestamp) {
    let ended = trials.iter().filter(|tested| !tested.attempt.is_pending()).count();
    let stray = if stray == 0 {
        String::new()
    } else {
        format!("; {stray} trials are of candidates that the spec no longer has")
    };
    let (all, candidates, cut) = (trials.len(), status.candidates.unwrap_or(0), also_left_out(status));
    let message = format!("{ended} of {all} trials have ended, {candidates} candidates{stray}{cut}");
    conditions::set(&mut status.conditions, RUNNING, State::True, Reason::Searching, &message, now);
    conditions::set(&mut status.conditions, READY, State::False, Reason::Searching, &message, now);
}

/// It ended without an answer.
pub fn fail(status: &mut ProfilingExperimentStatus, reason: Reason, message: &str, now: Timestamp) {
    over(status, FAILED, reason, message, now);
}

fn over(status: &mut ProfilingExperimentStatus, type_: &str, reason: Reason, message: &str, now: Timestamp) {
    let list = &mut status.conditions;
    if list.iter().any(|condition| condition.type_ == RUNNING) {
        conditions::set(list, RUNNING, State::False, Reason::Settled, "", now);
    }
    conditions::set(list, READY, State::from(type_ == SUCCEEDED), reason, message, now);
    conditions::set(list, type_, State::True, reason, message, now);
    status.completion_time = Some(whole_second(now).to_string());
}

/// Lists and counts of the trials, and the best of them so far.
pub fn summarise(status: &mut ProfilingExperimentStatus, trials: &[Tested], spec: &Spec) {
    let named = |wanted: Stage| -> Vec<String> {
        trials.iter().filter(|tested| state(tested) == wanted).map(|tested| tested.name.clone()).collect()
    };
    status.running_trial_list = named(Stage::Running);
    status.pending_trial_list = named(Stage::Pending);
    status.succeeded_trial_list = named(Stage::Over(TrialState::Succeeded));
    status.failed_trial_list = named(Stage::Over(TrialState::Failed));
    status.killed_trial_list = named(Stage::Over(TrialState::Killed));
    let count = |list: &Vec<String>| i32::try_from(list.len()).unwrap_or(i32::MAX);
    status.trials_total = i32::try_from(trials.len()).unwrap_or(i32::MAX);
    status.trials_running = count(&status.running_trial_list);
    status.trials_pending = count(&status.pending_trial_list);
    status.trials_succeeded = count(&status.succeeded_trial_list);
    status.trials_failed = count(&status.failed_trial_list);
    status.trials_killed = count(&status.killed_trial_list);
    let measured =
        || trials.iter().filter(|tested| !tested.attempt.is_pending() && tested.attempt.trial().value(spec).is_some());
    status.trial_result_list = measured().filter_map(|tested| result(tested, spec)).collect();
    status.current_optimal_trial = best(measured(), spec).and_then(|tested| result(tested, spec));
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Stage {
    Pending,
    Running,
    Over(TrialState),
}

fn state(tested: &Tested) -> Stage {
    match &tested.status.outcome {
        Some(outcome) if trial_status::is_over(&tested.status) => Stage::Over(outcome.state),
        _ if trial_status::is_measuring(&tested.status) => Stage::Running,
        _ => Stage::Pending,
    }
}

fn best<'a>(trials: impl Iterator<Item = &'a Tested>, spec: &Spec) -> Option<&'a Tested> {
    let good = trials.filter(|tested| tested.attempt.trial().meets(spec));
    let value = |tested: &Tested| tested.attempt.trial().value(spec).unwrap_or(f64::NAN);
    good.reduce(|best, next| {
        let is_better = match spec.goal() {
            Goal::Maximize => value(next) > value(best),
            Goal::Minimize => value(next) < value(best),
        };
        if is_better { next } else { best }
    })
}

/// What a trial is shown by: the metrics that were asked for, the objective's last.
fn result(tested: &Tested, spec: &Spec) -> Option<TrialResult> {
    let whole = tested.status.trial_result.as_ref()?;
    let objective = match &spec.objective {
        Objective::Metric { metric, .. } => Some(metric),
        Objective::Cost => None,
    };
    let is_asked = |metric: &&Metric| {
        Some(&metric.name) != objective && spec.constraints.iter().any(|asked| asked.metric == metric.name)
    };
    let all = &whole.objective_metrics_observed;
    let mut shown: Vec<Metric> = all.iter().filter(is_asked).cloned().collect();
    let cost = || Metric {
        name: load::COST.to_owned(),
        value: spec.cost_of(tested.attempt.candidate).to_string(),
        variance: None,
    };
    shown.extend(match objective {
        Some(objective) => all.iter().find(|metric| metric.name == *objective).cloned(),
        None => Some(cost()),
    });
    Some(TrialResult { tunable_parameters: whole.tunable_parameters.clone(), objective_metrics_observed: shown })
}

/// It is over.
pub fn finish(
    status: &mut ProfilingExperimentStatus,
    spec: &ProfilingExperimentSpec,
    question: &Question,
    trials: &[Tested],
    end: &End,
    change: Option<&Change>,
    now: Timestamp,
) {
    let asked = &question.spec;
    let problem = Problem::new(asked);
    let evidence: Vec<Trial> = trials
        .iter()
        .map(|tested| &tested.attempt)
        .filter(|attempt| !attempt.is_pending())
        .map(Attempt::trial)
        .collect();
    let of = |candidate| {
        trials
            .iter()
            .find(|tested| tested.attempt.candidate == candidate && tested.attempt.trial().works() == Some(true))
    };
    status.pareto = pareto(asked, &evidence)
        .into_iter()
        .filter_map(|candidate| result(of(candidate)?, asked))
        .take(PARETO_MAX)
        .collect();
    if evidence.iter().any(|trial| trial.works() == Some(true)) {
        let each = importance(&problem, &problem.believe(&evidence)).into_iter();
        let named = each.map(|each| ParameterImportance {
            name: each.parameter,
            alone: share(each.alone),
            total: share(each.total),
        });
        status.importance = named.collect();
    }
    if let Verdict::Recommended(found) = &end.verdict {
        let baseline = asked.baseline.map(|baseline| space::assignments(spec, &asked.space, baseline));
        status.recommendation = Some(Recommendation {
            parameters: space::assignments(spec, &asked.space, found.candidate),
            patch: change.map(|change| change.patch.clone()).filter(|patch| patch.len() <= PATCH_MAX),
            baseline: baseline.unwrap_or_default(),
            gain: found.gain.map(estimate),
            feasibility: share(found.probability),
            interval: Some(estimate(found.value)),
            cost: asked.cost.is_some().then(|| asked.cost_of(found.candidate).to_string()),
            confident: found.confident,
        });
    }
    let (type_, reason, message) = conclusion(end, trials);
    let message = format!("{message}{}", also_left_out(status));
    over(status, type_, reason, &message, now);
}

/// The answer is there, and its report could not be stored.
pub fn without_report(status: &mut ProfilingExperimentStatus, why: &str, now: Timestamp) {
    let Some(last) = status.conditions.last().cloned() else { return };
    let message = format!("{}; the report could not be stored: {why}", last.message);
    let reason = trial_status::reason(&last.reason);
    conditions::set(&mut status.conditions, &last.type_, State::True, reason, &message, now);
}

fn estimate(interval: Interval) -> Estimate {
    Estimate { estimate: interval.estimate.to_string(), low: interval.low.to_string(), high: interval.high.to_string() }
}

fn share(share: f64) -> String {
    format!("{share:.4}")
}

fn conclusion(end: &End, trials: &[Tested]) -> (&'static str, Reason, String) {
    let why = stopped(end.stop);
    let count = format!("{} of {} candidates tried, {} failed", end.trials, end.candidates, end.failed);
    let last = || {
        trials
            .iter()
            .rev()
            .find_map(|tested| tested.status.outcome.as_ref().filter(|outcome| outcome.state == TrialState::Failed))
    };
    let last = last().map_or(String::new(), |outcome| {
        format!("; the last failure: {}: {}", outcome.reason, shortened(&outcome.message, 600))
    });
    match (&end.verdict, end.stop) {
        (_, Stop::Failures) => (FAILED, Reason::TooManyFailures, format!("{why}; {count}{last}")),
        (Verdict::Recommended(found), _) => {
            let sure = if found.confident { "" } else { "; not sure enough to be run without another look" };
            (SUCCEEDED, Reason::Recommended, format!("{why}; {count}{sure}"))
        }
        (Verdict::NothingMeets { shortfalls }, _) => {
            let each: Vec<String> = shortfalls.iter().map(shortfall).collect();
            (
                FAILED,
                Reason::NothingFeasible,
                format!("no candidate meets the constraints: {}; {why}; {count}", each.join("; ")),
            )
        }
        (Verdict::NotMeasured { metric }, _) => {
            (FAILED, Reason::ResultMissing, format!("no trial measured {metric}; {why}; {count}{last}"))
        }
        (Verdict::NothingRan { failures }, _) => {
            let each: Vec<String> =
                failures.iter().map(|(failure, count)| format!("{failure:?} {count} times")).collect();
            (
                FAILED,
                Reason::NothingMeasured,
                format!("no candidate could be measured: {}; {why}{last}", each.join(", ")),
            )
        }
        (Verdict::NothingTried, _) => (FAILED, Reason::NothingMeasured, format!("no trial ended; {why}")),
    }
}

fn shortfall(shortfall: &Shortfall) -> String {
    let Shortfall { metric, limit, best, met, .. } = shortfall;
    let alone = if *met { ", kept by some, but not with the others" } else { "" };
    format!("{metric} has to be {limit} and came to {best:.4}{alone}")
}

fn stopped(stop: Stop) -> &'static str {
    match stop {
        Stop::Exhausted => "every candidate was tried",
        Stop::Trials => "maxNumTrials was reached",
        Stop::Failures => "maxFailedTrials was passed",
        Stop::Time => "budget.duration is spent",
        Stop::Money => "budget.cost is spent",
        Stop::LittleToGain => "little more is to be gained",
        Stop::Machine => "the machine failed too often in a row",
    }
}

/// Tells once how it began and how it ended.
pub fn tell(plan: &mut Plan, live: &Value, before: &ProfilingExperimentStatus, after: &ProfilingExperimentStatus) {
    let told = |status: &ProfilingExperimentStatus, type_: &str| conditions::is_true(&status.conditions, type_);
    for (type_, is_warning) in [(RUNNING, false), (SUCCEEDED, false), (FAILED, true)] {
        if told(after, type_) && !told(before, type_) {
            let condition = after.conditions.iter().find(|condition| condition.type_ == type_);
            let Some(condition) = condition else { continue };
            plan.tell(live, is_warning, trial_status::reason(&condition.reason), condition.message.clone());
        }
    }
}
