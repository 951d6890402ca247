//! One trial of an experiment, as far as the choice of the next one is concerned.

use serde::{Deserialize, Serialize};

use crate::history::{Failure, Outcome, Trial};
use crate::space::Candidate;
use crate::spec::{Bound, Spec};

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its number, from 0; the attempts of an experiment are ordered by it.
    pub index: usize,
    /// What is tried.
    pub candidate: Candidate,
    /// What for.
    pub purpose: Purpose,
    /// What came of it; [`Outcome::Pending`] while it runs.
    pub outcome: Outcome,
    /// Seconds of the experiment when it was started.
    #[serde(default)]
    pub at: f64,
    /// Seconds that it took; 0 while it runs.
    #[serde(default)]
    pub seconds: f64,
    /// Of a trial that met its objectives at no rate: by how much each was missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Missed>,
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// To find a better candidate.
    Search,
    /// To be sure of a good one.
    Confirm,
}

/// An objective that was missed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missed {
    /// Its metric.
    pub metric: String,
    /// Its limit.
    pub bound: Bound,
    /// What was measured.
    pub value: f64,
}

impl Attempt {
    /// One that begins.
    pub fn pending(index: usize, candidate: Candidate, purpose: Purpose, at: f64) -> Self {
        Self { index, candidate, purpose, outcome: Outcome::Pending, at, seconds: 0.0, missed: Vec::new() }
    }

    /// The same as evidence about its candidate.
    pub fn trial(&self) -> Trial {
        Trial { candidate: self.candidate, outcome: self.outcome.clone() }
    }

    /// Whether it is running.
    pub fn is_pending(&self) -> bool {
        self.outcome == Outcome::Pending
    }

    /// Whether the machine failed and not the candidate.
    pub fn is_infrastructure(&self) -> bool {
        self.outcome == Outcome::Failed(Failure::Infrastructure)
    }

    /// Whether it taught nothing about the objective: it did not run, or what it ran for was not measured.
    pub fn is_failed(&self, spec: &Spec) -> bool {
        match &self.outcome {
            Outcome::Pending | Outcome::Failed(Failure::Infrastructure | Failure::ObjectiveUnmet) => false,
            Outcome::Failed(_) => true,
            Outcome::Measured(_) => self.trial().value(spec).is_none(),
        }
    }
}
