//! What an experiment says, in words for a newcomer. Pure: objects in, lines and figures out.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use modelway_api::Trial;
use modelway_api::conditions::READY;
use modelway_api::profiling_conditions as conditions;
use modelway_api::profiling_experiment::ProfilingExperimentStatus;
use modelway_api::recommendation::Estimate;
use modelway_api::trial::{ParameterAssignment, TrialFailure, TrialResult, TrialState};

use super::document::{Gain, Tuning};
use super::tuning::EXPERIMENT;

/// Longest explanation of a trial that failed.
const REASON_MAX: usize = 60;

/// What an experiment that succeeded found; the report is not known here.
pub fn result(status: &ProfilingExperimentStatus, trials: &[Trial]) -> Option<Tuning> {
    let found = status.recommendation.as_ref()?;
    let rate = |values: &[ParameterAssignment]| {
        // The last time is the longest.
        let measured = status.trial_result_list.iter().rev().find(|result| same(&result.tunable_parameters, values));
        measured.and_then(objective)
    };
    let estimate = found.interval.as_ref().and_then(|interval| interval.estimate.parse().ok());
    Some(Tuning {
        candidates: status.candidates.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        trials: u32::try_from(trials.iter().filter(|trial| teaches(trial)).count()).unwrap_or(0),
        baseline: values(&found.baseline),
        recommended: values(&found.parameters),
        gain: found.gain.as_ref().and_then(gain),
        baseline_rate: rate(&found.baseline),
        recommended_rate: estimate.or_else(|| rate(&found.parameters)),
        ..Tuning::default()
    })
}

/// Whether its outcome is one of its candidate's; a failure of the machine is tried again and does not count.
fn teaches(trial: &Trial) -> bool {
    let outcome = trial.status.as_ref().and_then(|status| status.outcome.as_ref());
    outcome.is_some_and(|outcome| outcome.failure != Some(TrialFailure::Infrastructure))
}

fn values(values: &[ParameterAssignment]) -> BTreeMap<String, String> {
    values.iter().map(|value| (value.name.clone(), value.value.clone())).collect()
}

fn same(one: &[ParameterAssignment], other: &[ParameterAssignment]) -> bool {
    !one.is_empty() && values(one) == values(other)
}

/// The objective's metric is the last.
fn objective(result: &TrialResult) -> Option<f64> {
    result.objective_metrics_observed.last()?.value.parse().ok()
}

/// A factor is a share of the baseline more than all of it.
fn gain(factor: &Estimate) -> Option<Gain> {
    let share = |text: &str| text.parse::<f64>().ok().map(|factor| factor - 1.0);
    Some(Gain { estimate: share(&factor.estimate)?, low: share(&factor.low)?, high: share(&factor.high)? })
}

/// What an experiment waits for.
pub fn waiting(status: &ProfilingExperimentStatus) -> String {
    let ready = status.conditions.iter().find(|condition| condition.type_ == READY);
    ready.map_or_else(|| "the controller has not seen it yet".to_owned(), |ready| ready.message.clone())
}

/// The trials that have been told, and the best of them.
#[derive(Debug, Default)]
pub struct Told {
    names: BTreeSet<String>,
    best: f64,
}

impl Told {
    /// The line of a trial that has ended, once.
    pub fn line(&mut self, trial: &Trial) -> Option<String> {
        let status = trial.status.as_ref().filter(|status| conditions::is_over(&status.conditions))?;
        let outcome = status.outcome.as_ref()?;
        if !self.names.insert(trial.name_any()) {
            return None;
        }
        let settings = settings(&values(&trial.spec.sampling_result));
        let rate = || {
            let metrics = &status.trial_result.as_ref()?.objective_metrics_observed;
            metrics.iter().find(|metric| metric.name == "rate")?.value.parse::<f64>().ok()
        };
        let came = match (outcome.state, rate()) {
            (TrialState::Succeeded, Some(rate)) => {
                self.best = self.best.max(rate);
                format!("{rate:>6.0}/s, best {:.0}/s", self.best)
            }
            _ => format!("{}: {}", outcome.reason, shortened(&outcome.message)),
        };
        Some(format!("  trial {:<3} {settings:<58} {came}", number(trial).map_or(0, |number| number + 1)))
    }
}

fn shortened(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= REASON_MAX {
        return first.to_owned();
    }
    first.chars().take(REASON_MAX).chain(['…']).collect()
}

/// Which trial of the experiment it is, from 0.
pub fn number(trial: &Trial) -> Option<usize> {
    trial.name_any().strip_prefix(EXPERIMENT)?.strip_prefix('-')?.parse().ok()
}

/// Flags and their values, without dashes.
pub fn settings(values: &BTreeMap<String, String>) -> String {
    let all: Vec<String> =
        values.iter().map(|(name, value)| format!("{} {value}", name.trim_start_matches('-'))).collect();
    all.join(", ")
}

/// The line of the stage.
pub fn headline(tuning: &Tuning) -> String {
    let Tuning { candidates, trials, .. } = tuning;
    let stored = if tuning.stored { "found before: " } else { "" };
    let found = match tuning.gain {
        _ if tuning.is_best() => "v2 runs with the best settings found".to_owned(),
        Some(gain) => format!("v2 can do {}", percent(gain)),
        None => "v2 has better settings".to_owned(),
    };
    format!("{stored}{found}; {trials} trials of {candidates} candidates")
}

/// With its interval.
pub fn percent(gain: Gain) -> String {
    let [estimate, low, high] = [gain.estimate, gain.low, gain.high].map(|share| format!("{:+.0} %", 100.0 * share));
    format!("{estimate} requests/s (95 %: {low} to {high})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn values_of(batch: &str) -> Value {
        json!([{"name": "--max-batch-size", "value": batch, "category": "args"}])
    }

    fn trial(number: usize, outcome: &Value, metrics: &Value) -> Trial {
        let status = json!({
            "conditions": [{"type": "Succeeded", "status": "True", "reason": "Measured", "message": ""}],
            "trialResult": {"objectiveMetricsObserved": metrics}, "outcome": outcome,
        });
        let spec = json!({"samplingResult": values_of("8")});
        from_value(json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "Trial",
            "metadata": {"name": format!("{EXPERIMENT}-{number}")}, "spec": spec, "status": status}))
        .unwrap()
    }

    #[test]
    fn each_trial_is_told_once_with_the_best_so_far() {
        let measured = |number, rate: &str| {
            let outcome = json!({"state": "Succeeded", "reason": "Measured"});
            trial(number, &outcome, &json!([{"name": "rate", "value": rate}]))
        };
        let mut told = Told::default();
        let first = told.line(&measured(0, "120.4")).unwrap();
        assert!(first.starts_with("  trial 1   max-batch-size 8 ") && first.ends_with("120/s, best 120/s"), "{first}");
        assert_eq!(told.line(&measured(0, "120.4")), None);
        assert!(told.line(&measured(1, "80")).unwrap().ends_with("80/s, best 120/s"));
        let crash = json!({"state": "Failed", "failure": "Crash", "reason": "ServiceCrashed", "message": "it\nfell"});
        assert!(told.line(&trial(2, &crash, &json!([]))).unwrap().ends_with("ServiceCrashed: it"));
        let mut open = measured(3, "1");
        open.status.as_mut().unwrap().conditions.clear();
        assert_eq!(told.line(&open), None);
    }

    #[test]
    fn a_factor_becomes_a_gain_and_spoiled_trials_do_not_count() {
        let status = json!({
            "candidates": 72,
            "trialResultList": [
                {"tunableParameters": values_of("1"), "objectiveMetricsObserved": [{"name": "rate", "value": "100"}]},
                {"tunableParameters": values_of("8"), "objectiveMetricsObserved": [{"name": "rate", "value": "140"}]},
            ],
            "recommendation": {"parameters": values_of("8"), "baseline": values_of("1"), "feasibility": "1",
                "gain": {"estimate": "1.5", "low": "1.25", "high": "1.75"},
                "interval": {"estimate": "150", "low": "140", "high": "160"}},
        });
        let spoiled = json!({"state": "Failed", "failure": "Infrastructure", "reason": "ServiceLost"});
        let trials = [json!({"state": "Succeeded", "reason": "Measured"}), spoiled].map(|it| trial(0, &it, &json!([])));
        let tuning = result(&from_value(status).unwrap(), &trials).unwrap();
        assert_eq!((tuning.candidates, tuning.trials), (72, 1));
        assert_eq!(tuning.gain, Some(Gain { estimate: 0.5, low: 0.25, high: 0.75 }));
        assert_eq!((tuning.baseline_rate, tuning.recommended_rate), (Some(100.0), Some(150.0)));
        let line = headline(&tuning);
        assert_eq!(line, "v2 can do +50 % requests/s (95 %: +25 % to +75 %); 1 trials of 72 candidates");
        let same = Tuning { recommended: tuning.baseline.clone(), ..tuning };
        assert!(headline(&same).starts_with("v2 runs with the best settings found"));
        assert!(result(&ProfilingExperimentStatus::default(), &[]).is_none());
    }
}
