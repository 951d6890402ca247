//! Which candidate to run, how sure that is, and what it gains.

use serde::{Deserialize, Serialize};

use crate::belief::{Belief, Problem, ln_holds};
use crate::gp::Prediction;
use crate::history::Trial;
use crate::incumbent::{good, incumbent};
use crate::space::Candidate;
use crate::spec::{Goal, Objective, Transform};

/// A recommendation needs this probability that every constraint holds.
const CONFIDENCE: f64 = 0.95;

/// Half the width of a 95 % interval, in standard deviations.
const Z_95: f64 = 1.959_963_984_540_054;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The candidate.
    pub candidate: Candidate,
    /// Its objective in the objective's own unit.
    pub value: Interval,
    /// For each constraint, in order, the probability that it holds.
    pub constraints: Vec<f64>,
    /// Probability that all hold.
    pub probability: f64,
    /// Whether that is enough to run it without another look.
    pub confident: bool,
    /// By which factor it is better than the baseline, where that was measured: 1.5 is half as much again.
    pub gain: Option<Interval>,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Middle.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How far the trials stay from one constraint, for a person who asks why nothing is good enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortfall {
    /// The constraint's metric.
    pub metric: String,
    /// Its limit.
    pub limit: f64,
    /// The best that any trial measured, and which.
    pub best: f64,
    /// The candidate that measured it.
    pub candidate: Candidate,
    /// Whether any trial holds this constraint by itself.
    pub met: bool,
}

/// The best measured candidate that surely enough meets every constraint; else the best that meets them as measured.
/// `None` when no measured candidate does.
pub fn recommend(problem: &Problem, belief: &Belief, trials: &[Trial]) -> Option<Recommendation> {
    let sure = |candidate: &Candidate| belief.ln_feasible[*candidate] >= libm::log(CONFIDENCE);
    let better = |best: Candidate, next: Candidate| {
        if belief.score[next].mean > belief.score[best].mean { next } else { best }
    };
    let confident = good(problem, belief, trials).into_iter().filter(sure).reduce(better);
    let candidate = confident.or_else(|| incumbent(problem, belief, trials))?;
    let each = problem.spec.constraints.iter().zip(&belief.constraints);
    let constraints: Vec<f64> = each
        .map(|(constraint, beliefs)| libm::exp(ln_holds(constraint.bound, constraint.transform, beliefs[candidate])))
        .collect();
    Some(Recommendation {
        candidate,
        value: value(problem, candidate, belief.score[candidate]),
        probability: libm::exp(belief.ln_feasible[candidate]),
        constraints,
        confident: confident.is_some(),
        gain: gain(problem, belief, trials, candidate),
    })
}

/// For each constraint, how near any trial came. Empty before anything is measured.
pub fn shortfalls(problem: &Problem, trials: &[Trial]) -> Vec<Shortfall> {
    let nearest = |constraint: &crate::spec::Constraint| {
        let found = trials
            .iter()
            .filter_map(|trial| trial.measurement(&constraint.metric).map(|found| (found.value, trial.candidate)));
        let upper = matches!(constraint.bound, crate::spec::Bound::AtMost(_));
        let (best, candidate) = found.reduce(|best, next| if (next.0 < best.0) == upper { next } else { best })?;
        let (metric, limit) = (constraint.metric.clone(), constraint.bound.limit());
        Some(Shortfall { metric, limit, best, candidate, met: constraint.bound.holds(best) })
    };
    problem.spec.constraints.iter().filter_map(nearest).collect()
}

/// A score's belief in the objective's own unit.
pub fn value(problem: &Problem, candidate: Candidate, score: Prediction) -> Interval {
    let back = |score: f64| match &problem.spec.objective {
        Objective::Cost => problem.spec.cost_of(candidate),
        Objective::Metric { goal, transform, .. } => match (goal, transform) {
            (Goal::Maximize, Transform::Linear) => score,
            (Goal::Minimize, Transform::Linear) => -score,
            (Goal::Maximize, transform) => transform.back(score),
            (Goal::Minimize, transform) => transform.back(-score),
        },
    };
    let (one, other) = (back(score.mean - Z_95 * score.sd), back(score.mean + Z_95 * score.sd));
    Interval { estimate: back(score.mean), low: one.min(other), high: one.max(other) }
}

/// Ratio of two candidates; both are taken as independent, which widens the interval.
fn gain(problem: &Problem, belief: &Belief, trials: &[Trial], candidate: Candidate) -> Option<Interval> {
    let baseline = problem.spec.baseline?;
    trials.iter().find(|trial| trial.candidate == baseline && trial.value(problem.spec).is_some())?;
    let (ours, theirs) = (belief.score[candidate], belief.score[baseline]);
    if candidate == baseline {
        return Some(Interval { estimate: 1.0, low: 1.0, high: 1.0 });
    }
    let logarithmic = match &problem.spec.objective {
        Objective::Cost => true,
        Objective::Metric { transform, .. } => matches!(transform, Transform::Log { .. }),
    };
    let sd = (ours.sd * ours.sd + theirs.sd * theirs.sd).sqrt();
    if logarithmic {
        let at = |z: f64| libm::exp(ours.mean - theirs.mean + z * sd);
        return Some(Interval { estimate: at(0.0), low: at(-Z_95), high: at(Z_95) });
    }
    let base = theirs.mean.abs();
    let at = |z: f64| 1.0 + (ours.mean - theirs.mean + z * sd) / base;
    (base > 0.0).then(|| Interval { estimate: at(0.0), low: at(-Z_95), high: at(Z_95) })
}
