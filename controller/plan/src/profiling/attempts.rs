//! The trials of an experiment as the search sees them.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    labels, names,
    profiling_experiment::{ProfilingExperiment, ProfilingExperimentSpec},
    trial::{Trial, TrialFailure, TrialState, TrialStatus},
};
use modelway_tune::{
    experiment::{Attempt, Missed, Purpose, Why},
    history::{Failure, Measurement, Outcome},
    space::{Candidate, Space},
    spec::Bound,
    warm::{Source, SourceTrial},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{load, metrics, space, trial_status, values};
use crate::{
    context::Context,
    json as read,
    world::{Kind, World},
};

/// What a Trial carries of the choice that made it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub index: usize,
    pub purpose: Purpose,
    /// Seconds of the experiment.
    pub at: f64,
    pub why: Why,
    /// Requests per second at which a search for the highest rate begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_rate: Option<f64>,
    /// Others that were running then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<usize>,
}

/// One trial with what it says of itself.
#[derive(Clone, Debug)]
pub struct Tested {
    pub attempt: Attempt,
    pub choice: Choice,
    pub name: String,
    pub status: TrialStatus,
}

impl Tested {
    /// Since when it has been at work.
    pub fn started(&self) -> Option<Timestamp> {
        self.status.start_time.as_ref()?.parse().ok()
    }
}

/// The trials of an experiment, in their order.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// Those of the present candidates.
    pub tested: Vec<Tested>,
    /// Number of the next Trial at least: names are not used twice.
    pub next_index: usize,
    /// Trials of candidates that are no more: the spec was changed.
    pub stray: usize,
}

/// Finds the trials of an experiment.
pub fn find(cx: &Context, experiment: &Value, spec: &ProfilingExperimentSpec, space: &Space) -> Trials {
    let mut trials = Trials::default();
    for live in own(cx.world, experiment) {
        let Some(index) = index(experiment, live) else { continue };
        trials.next_index = trials.next_index.max(index + 1);
        match tested(live, index, spec, space) {
            Some(tested) => trials.tested.push(tested),
            None => trials.stray += 1,
        }
    }
    trials.tested.sort_by_key(|tested| tested.attempt.index);
    trials
}

/// The Trials that belong to an experiment.
pub fn own<'a>(world: &'a World, experiment: &'a Value) -> impl Iterator<Item = &'a Value> {
    let trials = world.list(Kind::Trial, read::text(experiment, "/metadata/namespace"));
    trials.filter(|trial| read::is_controlled_by(trial, read::uid(experiment)))
}

fn index(experiment: &Value, trial: &Value) -> Option<usize> {
    let (experiment, trial) = (read::name(experiment), read::name(trial));
    let index = trial.strip_prefix(experiment)?.strip_prefix('-')?.parse().ok()?;
    (names::trial(experiment, index) == trial).then_some(index)
}

fn tested(live: &Value, index: usize, spec: &ProfilingExperimentSpec, space: &Space) -> Option<Tested> {
    let trial: Trial = serde_json::from_value(live.clone()).ok()?;
    let candidate = space::candidate(spec, space, &trial.spec.sampling_result)?;
    let choice = choice(live)?;
    let status = trial.status.unwrap_or_default();
    let attempt = attempt(index, candidate, &choice, spec, &status);
    Some(Tested { attempt, choice, name: read::name(live).to_owned(), status })
}

/// The choice that made a Trial; none for one that a user made.
pub fn choice(trial: &Value) -> Option<Choice> {
    serde_json::from_str(read::annotation(trial, labels::tuning::CHOICE)?).ok()
}

fn attempt(
    index: usize,
    candidate: Candidate,
    choice: &Choice,
    spec: &ProfilingExperimentSpec,
    status: &TrialStatus,
) -> Attempt {
    let mut attempt = Attempt::pending(index, candidate, choice.purpose, choice.at);
    let Some(known) = status.outcome.as_ref().filter(|_| trial_status::is_over(status)) else { return attempt };
    attempt.seconds = known.seconds as f64;
    let measured = measurements(status);
    attempt.outcome = match (known.state, known.failure) {
        (TrialState::Succeeded, _) | (TrialState::Failed, None) => Outcome::Measured(measured),
        (TrialState::Failed, Some(failure)) => {
            if failure == TrialFailure::ObjectiveUnmet {
                attempt.missed = missed(spec, &measured);
            }
            Outcome::Failed(kind(failure))
        }
        (TrialState::Killed, _) => Outcome::Failed(Failure::Infrastructure),
    };
    attempt
}

/// What a trial measured; what is no number is left out.
pub fn measurements(status: &TrialStatus) -> BTreeMap<String, Measurement> {
    let metrics = status.trial_result.iter().flat_map(|result| &result.objective_metrics_observed);
    let each = metrics.filter_map(|metric| {
        let variance = metric.variance.as_deref().and_then(values::number).filter(|variance| *variance >= 0.0);
        Some((
            metric.name.clone(),
            Measurement { value: values::number(&metric.value)?, variance: variance.unwrap_or(0.0) },
        ))
    });
    each.collect()
}

/// Limits that were not kept, by how much.
fn missed(spec: &ProfilingExperimentSpec, measured: &BTreeMap<String, Measurement>) -> Vec<Missed> {
    let percentile = spec.load.as_ref().and_then(|load| load.percentile.as_deref());
    let constraints = spec.objective.iter().flat_map(|objective| &objective.constraints);
    let each = constraints.filter_map(|constraint| {
        let (is_upper, limit) = load::limit(constraint).ok()?;
        let name = metrics::own_name(&constraint.metric, percentile);
        let found = measured.get(&name).or_else(|| measured.get(&constraint.metric))?;
        let bound = if is_upper { Bound::AtMost(limit) } else { Bound::AtLeast(limit) };
        (!bound.holds(found.value)).then_some(Missed { metric: name, bound, value: found.value })
    });
    each.collect()
}

fn kind(failure: TrialFailure) -> Failure {
    match failure {
        TrialFailure::OutOfMemory => Failure::OutOfMemory,
        TrialFailure::Crash => Failure::Crash,
        TrialFailure::Unschedulable => Failure::Unschedulable,
        TrialFailure::StartTimeout => Failure::StartTimeout,
        TrialFailure::ObjectiveUnmet => Failure::ObjectiveUnmet,
        TrialFailure::Infrastructure => Failure::Infrastructure,
    }
}

/// Earlier experiments to start from; those that are not there, or have other parameters, teach nothing.
pub fn sources(cx: &Context, namespace: &str, spec: &ProfilingExperimentSpec) -> Vec<Source> {
    let each = spec.warm_start.iter().filter_map(|warm| {
        let earlier = cx.world.get(Kind::ProfilingExperiment, namespace, &warm.experiment)?;
        let earlier: ProfilingExperiment = serde_json::from_value(earlier.clone()).ok()?;
        let trials: Vec<SourceTrial> =
            earlier.status?.trial_result_list.iter().filter_map(|result| source_trial(spec, result)).collect();
        (!trials.is_empty()).then(|| Source { name: warm.experiment.clone(), trials })
    });
    each.collect()
}

fn source_trial(spec: &ProfilingExperimentSpec, result: &modelway_api::trial::TrialResult) -> Option<SourceTrial> {
    let value = |(category, parameter): (_, &modelway_api::profiling_experiment::ParameterSpec)| {
        let mut all = result.tunable_parameters.iter();
        Some(all.find(|value| value.category == category && value.name == parameter.name)?.value.clone())
    };
    let settings: Vec<String> = space::parameters(spec).map(value).collect::<Option<_>>()?;
    let status = TrialStatus { trial_result: Some(result.clone()), ..TrialStatus::default() };
    Some(SourceTrial { settings, outcome: Outcome::Measured(measurements(&status)) })
}
