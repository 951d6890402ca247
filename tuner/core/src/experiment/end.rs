//! How an experiment ended, and what it found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Missed};
use super::question::Question;
use crate::belief::Problem;
use crate::history::{Failure, Outcome, Trial};
use crate::recommend::{Recommendation, Shortfall, recommend, shortfalls};
use crate::spec::{Bound, Objective};
use crate::stop::Stop;

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Which rule ended it.
    pub stop: Stop,
    /// What it found.
    pub verdict: Verdict,
    /// Candidates there were.
    pub candidates: usize,
    /// Trials of the search, failures of the machine not counted.
    pub trials: usize,
    /// Of these, those that did not run or measured nothing.
    pub failed: usize,
    /// Candidates measured again.
    pub confirmed: usize,
    /// What it cost, where candidates have a cost.
    #[serde(default)]
    pub money: Option<f64>,
}

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// A candidate to run.
    Recommended(Recommendation),
    /// What ran meets not every constraint: how near any came to each.
    NothingMeets { shortfalls: Vec<Shortfall> },
    /// Trials ran, and none measured this metric.
    NotMeasured { metric: String },
    /// No candidate ran: how often each failure came.
    NothingRan { failures: BTreeMap<Failure, usize> },
    /// No trial ended.
    NothingTried,
}

/// What is known so far: at the end, the answer.
pub fn verdict<A: std::borrow::Borrow<Attempt>>(question: &Question, problem: &Problem, attempts: &[A]) -> Verdict {
    let ended = || attempts.iter().map(std::borrow::Borrow::borrow).filter(|attempt| !attempt.is_pending());
    let trials: Vec<Trial> = ended().map(Attempt::trial).collect();
    if trials.is_empty() {
        return Verdict::NothingTried;
    }
    let measured = trials.iter().any(|trial| trial.works() == Some(true));
    if let Some(found) = measured.then(|| recommend(problem, &problem.believe(&trials), &trials)).flatten() {
        return Verdict::Recommended(found);
    }
    if let Some(metric) = measured.then(|| missing_metric(question, &trials)).flatten() {
        return Verdict::NotMeasured { metric };
    }
    let shortfalls = all_shortfalls(problem, &trials, ended().flat_map(with_candidate));
    if !shortfalls.is_empty() {
        return Verdict::NothingMeets { shortfalls };
    }
    let mut failures = BTreeMap::new();
    for trial in &trials {
        if let Outcome::Failed(failure) = &trial.outcome {
            *failures.entry(*failure).or_insert(0) += 1;
        }
    }
    Verdict::NothingRan { failures }
}

fn with_candidate(attempt: &Attempt) -> impl Iterator<Item = (usize, &Missed)> {
    attempt.missed.iter().map(|missed| (attempt.candidate, missed))
}

/// The constraints of the spec, and the objectives that trials searched for and missed.
fn all_shortfalls<'a>(
    problem: &Problem,
    trials: &[Trial],
    missed: impl Iterator<Item = (usize, &'a Missed)>,
) -> Vec<Shortfall> {
    let mut found: Vec<Shortfall> = shortfalls(problem, trials);
    for (candidate, missed) in missed {
        let next = Shortfall {
            metric: missed.metric.clone(),
            limit: missed.bound.limit(),
            best: missed.value,
            candidate,
            met: missed.bound.holds(missed.value),
        };
        let upper = matches!(missed.bound, Bound::AtMost(_));
        match found.iter_mut().find(|known| known.metric == next.metric) {
            Some(known) if (next.best < known.best) == upper => *known = next,
            Some(_) => {}
            None => found.push(next),
        }
    }
    found
}

/// The objective's metric or a constraint's, when no trial measured it.
fn missing_metric(question: &Question, trials: &[Trial]) -> Option<String> {
    let spec = &question.spec;
    let objective = match &spec.objective {
        Objective::Metric { metric, .. } => Some(metric),
        Objective::Cost => None,
    };
    let mut names = objective.into_iter().chain(spec.constraints.iter().map(|constraint| &constraint.metric));
    names.find(|name| trials.iter().all(|trial| trial.measurement(name).is_none())).cloned()
}
