//! What was tried, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::space::Candidate;
use crate::spec::Spec;

/// One stress test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What was tried.
    pub candidate: Candidate,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It ran, and these were measured. Values that are not finite count as missing.
    Measured(BTreeMap<String, Measurement>),
    /// It did not run: an answer about the candidate, never a number.
    Failed(Failure),
    /// It is running.
    Pending,
}

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The value, in the metric's unit.
    pub value: f64,
    /// Its variance, where the trial knows it; else 0.
    #[serde(default)]
    pub variance: f64,
}

/// Why a candidate did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Failure {
    /// It used more memory than it may.
    OutOfMemory,
    /// It ended by itself.
    Crash,
    /// No node can hold it.
    Unschedulable,
    /// It was not ready in time.
    StartTimeout,
    /// It ran, and met its objectives at no rate at all.
    ObjectiveUnmet,
    /// The machine failed, not the candidate: nothing is learned, and it may be tried again.
    Infrastructure,
}

impl Trial {
    /// A trial that ran, from names and values without known variance.
    pub fn measured<'a>(candidate: Candidate, values: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let measure = |(name, value): (&str, f64)| (name.to_owned(), Measurement { value, variance: 0.0 });
        Self { candidate, outcome: Outcome::Measured(values.into_iter().map(measure).collect()) }
    }

    /// A trial that did not run.
    pub fn failed(candidate: Candidate, failure: Failure) -> Self {
        Self { candidate, outcome: Outcome::Failed(failure) }
    }

    /// A trial that is running.
    pub fn pending(candidate: Candidate) -> Self {
        Self { candidate, outcome: Outcome::Pending }
    }

    /// A finite measurement.
    pub fn measurement(&self, metric: &str) -> Option<Measurement> {
        let Outcome::Measured(values) = &self.outcome else { return None };
        values.get(metric).copied().filter(|measurement| measurement.value.is_finite())
    }

    /// Whether it says anything about its candidate: all but failures of the machine.
    pub fn counts(&self) -> bool {
        self.outcome != Outcome::Failed(Failure::Infrastructure)
    }

    /// `Some(true)`: measured. `Some(false)`: failed. `None`: not known.
    pub fn works(&self) -> Option<bool> {
        match &self.outcome {
            Outcome::Measured(_) => Some(true),
            Outcome::Failed(Failure::Infrastructure) | Outcome::Pending => None,
            Outcome::Failed(_) => Some(false),
        }
    }

    /// Whether it measured every constraint and all of them held.
    pub fn meets(&self, spec: &Spec) -> bool {
        let holds = |constraint: &crate::spec::Constraint| {
            self.measurement(&constraint.metric).is_some_and(|found| constraint.bound.holds(found.value))
        };
        self.works() == Some(true) && spec.constraints.iter().all(holds)
    }

    /// Whether it knows of noise in what it measured.
    pub fn noisy(&self) -> bool {
        matches!(&self.outcome, Outcome::Measured(values) if values.values().any(|found| found.variance > 0.0))
    }

    /// The objective's value in its own unit.
    pub fn value(&self, spec: &Spec) -> Option<f64> {
        self.works().filter(|works| *works)?;
        spec.value(self.candidate, |metric| self.measurement(metric).map(|found| found.value))
    }
}

/// The trials in an order that does not depend on when they ended: by candidate, then by what was measured.
pub(crate) fn ordered(trials: &[Trial]) -> Vec<&Trial> {
    let mut ordered: Vec<&Trial> = trials.iter().collect();
    ordered.sort_by(|left, right| left.candidate.cmp(&right.candidate).then_with(|| compare(left, right)));
    ordered
}

fn compare(left: &Trial, right: &Trial) -> std::cmp::Ordering {
    match (&left.outcome, &right.outcome) {
        (Outcome::Measured(left), Outcome::Measured(right)) => {
            let key = |(name, found): (&String, &Measurement)| {
                (name.clone(), found.value.to_bits(), found.variance.to_bits())
            };
            left.iter().map(key).cmp(right.iter().map(key))
        }
        (Outcome::Failed(left), Outcome::Failed(right)) => left.cmp(right),
        _ => rank(&left.outcome).cmp(&rank(&right.outcome)),
    }
}

fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Measured(_) => 0,
        Outcome::Failed(_) => 1,
        Outcome::Pending => 2,
    }
}
