//! What is asked: the space, what is maximised, what must hold, what a candidate costs.

use serde::{Deserialize, Serialize};

use crate::space::{Candidate, Space, SpaceError};
use crate::warm::Source;

/// Everything about a search that does not change while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The candidates.
    pub space: Space,
    /// What is best.
    pub objective: Objective,
    /// What must hold.
    #[serde(default)]
    pub constraints: Vec<Constraint>,
    /// Cost of each candidate, in any one unit, above 0.
    #[serde(default)]
    pub cost: Option<Vec<f64>>,
    /// The running spec; it is measured first.
    #[serde(default)]
    pub baseline: Option<Candidate>,
    /// Earlier experiments over the same parameters.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// What is best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Objective {
    /// A metric, such as requests per second; per unit of cost where `per_cost` says so.
    Metric { metric: String, goal: Goal, transform: Transform, per_cost: bool },
    /// The lowest cost; the constraints say what it must do.
    Cost,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    /// More.
    Maximize,
    /// Less.
    Minimize,
}

/// A metric with a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// Its name.
    pub metric: String,
    /// Its limit.
    pub bound: Bound,
    /// The scale on which it is modelled.
    pub transform: Transform,
}

/// The side on which a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

/// The scale on which a metric changes evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transform {
    /// Rates and latencies: what is twice as much is one step. Values at or below the floor count as the floor.
    Log { floor: f64 },
    /// Shares between 0 and 1, such as errors; clipped to `[floor, 1 - floor]`.
    Logit { floor: f64 },
    /// Anything else.
    Linear,
}

/// Why a search cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The candidates are wrong.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Costs do not fit the candidates.
    #[error("there are {found} costs for {expected} candidates")]
    CostLength { found: usize, expected: usize },
    /// A cost is not above 0.
    #[error("candidate {candidate} costs {cost}: costs are finite numbers above 0")]
    Cost { candidate: Candidate, cost: f64 },
    /// A cost is needed.
    #[error("the objective is per cost, but no candidate has a cost: set objective.cost")]
    NoCost,
    /// The baseline is not a candidate.
    #[error("the baseline is candidate {baseline}, but there are only {candidates}")]
    Baseline { baseline: Candidate, candidates: usize },
    /// A limit that is no number.
    #[error("the limit of {metric} is {limit}, which is not a finite number")]
    Limit { metric: String, limit: f64 },
    /// A scale that is none.
    #[error("metric {metric} has a scale whose floor is {floor}: use a small number above 0")]
    Floor { metric: String, floor: f64 },
    /// Two limits for the same side of one metric.
    #[error("metric {metric} has two limits: keep the stricter one")]
    TwoLimits { metric: String },
}

impl Spec {
    /// Says what is wrong before anything is started.
    pub fn check(&self) -> Result<(), SpecError> {
        self.space.check()?;
        let candidates = self.space.len();
        self.check_cost()?;
        if let Some(baseline) = self.baseline.filter(|baseline| *baseline >= candidates) {
            return Err(SpecError::Baseline { baseline, candidates });
        }
        if let Objective::Metric { metric, transform, .. } = &self.objective {
            transform.check(metric)?;
        }
        for (index, constraint) in self.constraints.iter().enumerate() {
            constraint.transform.check(&constraint.metric)?;
            let limit = constraint.bound.limit();
            if !limit.is_finite() {
                return Err(SpecError::Limit { metric: constraint.metric.clone(), limit });
            }
            let same = |other: &Constraint| {
                let side = std::mem::discriminant(&other.bound) == std::mem::discriminant(&constraint.bound);
                side && other.metric == constraint.metric
            };
            if self.constraints[..index].iter().any(same) {
                return Err(SpecError::TwoLimits { metric: constraint.metric.clone() });
            }
        }
        Ok(())
    }

    fn check_cost(&self) -> Result<(), SpecError> {
        let Some(costs) = &self.cost else {
            let needed = match &self.objective {
                Objective::Metric { per_cost, .. } => *per_cost,
                Objective::Cost => true,
            };
            return if needed { Err(SpecError::NoCost) } else { Ok(()) };
        };
        if costs.len() != self.space.len() {
            return Err(SpecError::CostLength { found: costs.len(), expected: self.space.len() });
        }
        let bad = costs.iter().position(|cost| !(cost.is_finite() && *cost > 0.0));
        bad.map_or(Ok(()), |candidate| Err(SpecError::Cost { candidate, cost: costs[candidate] }))
    }

    /// Cost of a candidate; 1 where none is known.
    pub fn cost_of(&self, candidate: Candidate) -> f64 {
        self.cost.as_ref().and_then(|costs| costs.get(candidate)).copied().unwrap_or(1.0)
    }

    /// The objective's value in its own unit: more is better for `Maximize`. `None` when the metric is missing.
    pub fn value(&self, candidate: Candidate, metric: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        match &self.objective {
            Objective::Cost => Some(self.cost_of(candidate)),
            Objective::Metric { metric: name, per_cost: false, .. } => metric(name),
            Objective::Metric { metric: name, goal: Goal::Maximize, .. } => {
                metric(name).map(|value| value / self.cost_of(candidate))
            }
            Objective::Metric { metric: name, goal: Goal::Minimize, .. } => {
                metric(name).map(|value| value * self.cost_of(candidate))
            }
        }
    }

    /// Which way the objective's value is better.
    pub fn goal(&self) -> Goal {
        match &self.objective {
            Objective::Cost => Goal::Minimize,
            Objective::Metric { goal, .. } => *goal,
        }
    }
}

impl Bound {
    /// The number itself.
    pub fn limit(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Whether a value keeps it.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

impl Transform {
    /// For rates and latencies.
    pub const LOG: Self = Self::Log { floor: 1e-9 };

    fn check(self, metric: &str) -> Result<(), SpecError> {
        let (floor, below) = match self {
            Self::Log { floor } => (floor, f64::INFINITY),
            Self::Logit { floor } => (floor, 0.5),
            Self::Linear => return Ok(()),
        };
        let good = floor > 0.0 && floor < below;
        if good { Ok(()) } else { Err(SpecError::Floor { metric: metric.to_owned(), floor }) }
    }

    /// Onto the even scale.
    pub fn forward(self, value: f64) -> f64 {
        match self {
            Self::Log { floor } => libm::log(value.max(floor)),
            Self::Logit { floor } => {
                let share = value.clamp(floor, 1.0 - floor);
                libm::log(share / (1.0 - share))
            }
            Self::Linear => value,
        }
    }

    /// Back to the metric's unit.
    pub fn back(self, value: f64) -> f64 {
        match self {
            Self::Log { .. } => libm::exp(value),
            Self::Logit { .. } => 1.0 / (1.0 + libm::exp(-value)),
            Self::Linear => value,
        }
    }

    /// Variance on the even scale of a value with this variance, to first order.
    pub fn variance(self, value: f64, variance: f64) -> f64 {
        match self {
            Self::Log { floor } => variance / value.max(floor).powi(2),
            Self::Logit { floor } => {
                let share = value.clamp(floor, 1.0 - floor);
                variance / (share * (1.0 - share)).powi(2)
            }
            Self::Linear => variance,
        }
    }
}
