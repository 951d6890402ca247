//! What an experiment is asked, and how it may go about it.

use serde::{Deserialize, Serialize};

use crate::baseline::Baseline;
use crate::spec::{Spec, SpecError};
use crate::stop::Limits;

/// Trials at a time at most: more than this would be a slip of the pen.
const MAX_PARALLELISM: usize = 1_000;

/// Everything about an experiment that does not change while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Candidates, objective, constraints, costs per hour.
    pub spec: Spec,
    /// How the next candidate is chosen.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// When it ends.
    #[serde(default)]
    pub limits: Limits,
    /// Trials at a time.
    #[serde(default = "one")]
    pub parallelism: usize,
    /// What is measured again at the end.
    #[serde(default)]
    pub confirm: Confirm,
    /// How often in a row the machine may fail before it is given up.
    #[serde(default = "three")]
    pub infrastructure_retries: usize,
    /// Same question, same seed: same sequence.
    #[serde(default)]
    pub seed: u64,
}

/// How the next candidate is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Algorithm {
    /// By the models of what was measured.
    #[default]
    Bayesian,
    /// Any that was not tried.
    Random,
    /// In their order.
    Grid,
    /// Evenly spread.
    Sobol,
}

/// The best candidates are measured again at the end, for longer: the best of many noisy numbers is flattered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Confirm {
    /// So many; 0 = none.
    pub top: usize,
    /// How many times as long as a trial of the search each is expected to take.
    pub stretch: f64,
}

/// Why an experiment cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The candidates, the objective or the constraints are wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Nothing may be tried.
    #[error("{field} is {found}: {wanted}")]
    Field { field: &'static str, found: String, wanted: &'static str },
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

impl Default for Confirm {
    fn default() -> Self {
        Self { top: 3, stretch: 1.0 }
    }
}

impl Algorithm {
    /// Reads a name as a `ProfilingExperiment` writes it.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "" | "bayesianopt" | "bayesian" | "bo" => Some(Self::Bayesian),
            "random" => Some(Self::Random),
            "grid" => Some(Self::Grid),
            "sobol" => Some(Self::Sobol),
            _ => None,
        }
    }

    /// The search without a model, where it has none.
    pub(super) fn baseline(self) -> Option<Baseline> {
        match self {
            Self::Bayesian => None,
            Self::Random => Some(Baseline::Random),
            Self::Grid => Some(Baseline::Grid),
            Self::Sobol => Some(Baseline::Sobol),
        }
    }
}

impl Question {
    /// A question with the defaults.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            algorithm: Algorithm::default(),
            limits: Limits::default(),
            parallelism: one(),
            confirm: Confirm::default(),
            infrastructure_retries: three(),
            seed: 0,
        }
    }

    /// Says what is wrong before anything is started.
    pub fn check(&self) -> Result<(), QuestionError> {
        self.spec.check()?;
        let wrong = |field, found: String, wanted| Err(QuestionError::Field { field, found, wanted });
        if self.limits.max_trials == 0 {
            return wrong("maxTrials", "0".to_owned(), "allow at least one trial");
        }
        if self.parallelism == 0 || self.parallelism > MAX_PARALLELISM {
            return wrong("parallelism", self.parallelism.to_string(), "use 1 to 1000");
        }
        let promise = self.limits.expected_improvement;
        if !(promise.is_finite() && promise >= 0.0) {
            return wrong("expectedImprovement", promise.to_string(), "use a share such as 0.01, 0 to go on");
        }
        if !(self.confirm.stretch.is_finite() && self.confirm.stretch >= 0.0) {
            return wrong("confirm.stretch", self.confirm.stretch.to_string(), "use a number of at least 0");
        }
        for (field, budget) in [("budget.duration", self.limits.seconds), ("budget.cost", self.limits.money)] {
            if let Some(budget) = budget.filter(|budget| !(budget.is_finite() && *budget > 0.0)) {
                return wrong(field, budget.to_string(), "use a number above 0");
            }
        }
        if self.limits.money.is_some() && self.spec.cost.is_none() {
            return wrong("budget.cost", "set".to_owned(), "no candidate has a cost, so that nothing would count");
        }
        Ok(())
    }
}
