//! Which candidate to run, how sure that is, and what it gains.

use serde::{Deserialize, Serialize};

use crate::belief::{Belief, Problem, ln_holds};
use crate::gp::Prediction;
use crate::history::Trial;
use crate::incumbent::{good, incumbent};
use crate::math::normal::mixture_quantile;
use crate::space::Candidate;
use crate::spec::{Goal, Objective, Transform};

/// A recommendation needs this probability that every constraint holds.
const CONFIDENCE: f64 = 0.95;

/// Half the width of a 95 % interval, in standard deviations.
const Z_95: f64 = 1.959_963_984_540_054;

/// Ends of a 95 % interval, as shares of what is below.
const ENDS: [f64; 2] = [0.025, 0.975];

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
    let by_noise = problem.scores_by_noise(trials);
    let each = problem.spec.constraints.iter().zip(&belief.constraints);
    let constraints: Vec<f64> = each
        .map(|(constraint, beliefs)| libm::exp(ln_holds(constraint.bound, constraint.transform, beliefs[candidate])))
        .collect();
    Some(Recommendation {
        candidate,
        value: value(problem, belief, &by_noise, candidate),
        probability: libm::exp(belief.ln_feasible[candidate]),
        constraints,
        confident: confident.is_some(),
        gain: gain(problem, belief, &by_noise, trials, candidate),
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

/// Scores at several levels of noise, with their weights.
pub type ByNoise = [(f64, Vec<Prediction>)];

/// Ends of the 95 % interval of what `of` makes of the scores; the estimate is always within.
fn ends(by_noise: &ByNoise, estimate: f64, of: impl Fn(&[Prediction]) -> Prediction) -> [f64; 2] {
    let parts: Vec<(f64, Prediction)> = by_noise.iter().map(|(weight, scores)| (*weight, of(scores))).collect();
    let parts: Vec<(f64, f64, f64)> = parts.iter().map(|(weight, one)| (*weight, one.mean, one.sd)).collect();
    if parts.is_empty() {
        return [estimate; 2];
    }
    let [low, high] = ENDS.map(|share| mixture_quantile(&parts, share));
    [low.min(estimate), high.max(estimate)]
}

/// A candidate's objective in its own unit; the interval is over what the noise may be (`Problem::scores_by_noise`).
pub fn value(problem: &Problem, belief: &Belief, by_noise: &ByNoise, candidate: Candidate) -> Interval {
    let estimate = belief.score[candidate].mean;
    in_unit(problem, candidate, estimate, ends(by_noise, estimate, |scores| scores[candidate]))
}

/// A score's belief in the objective's own unit, with the fitted noise taken for certain.
pub fn believed(problem: &Problem, candidate: Candidate, score: Prediction) -> Interval {
    in_unit(problem, candidate, score.mean, [-Z_95, Z_95].map(|z| score.mean + z * score.sd))
}

/// A score with the ends of its interval in the objective's own unit.
fn in_unit(problem: &Problem, candidate: Candidate, estimate: f64, ends: [f64; 2]) -> Interval {
    let back = |score: f64| match &problem.spec.objective {
        Objective::Cost => problem.spec.cost_of(candidate),
        Objective::Metric { goal, transform, .. } => match (goal, transform) {
            (Goal::Maximize, Transform::Linear) => score,
            (Goal::Minimize, Transform::Linear) => -score,
            (Goal::Maximize, transform) => transform.back(score),
            (Goal::Minimize, transform) => transform.back(-score),
        },
    };
    let [one, other] = ends.map(back);
    Interval { estimate: back(estimate), low: one.min(other), high: one.max(other) }
}

/// Ratio of two candidates; both are taken as independent, which widens the interval.
fn gain(
    problem: &Problem,
    belief: &Belief,
    by_noise: &ByNoise,
    trials: &[Trial],
    candidate: Candidate,
) -> Option<Interval> {
    let baseline = problem.spec.baseline?;
    trials.iter().find(|trial| trial.candidate == baseline && trial.value(problem.spec).is_some())?;
    if candidate == baseline {
        return Some(Interval { estimate: 1.0, low: 1.0, high: 1.0 });
    }
    let difference = |scores: &[Prediction]| {
        let (ours, theirs) = (scores[candidate], scores[baseline]);
        Prediction { mean: ours.mean - theirs.mean, sd: (ours.sd * ours.sd + theirs.sd * theirs.sd).sqrt() }
    };
    let estimate = difference(&belief.score).mean;
    let [low, high] = ends(by_noise, estimate, difference);
    let logarithmic = match &problem.spec.objective {
        Objective::Cost => true,
        Objective::Metric { transform, .. } => matches!(transform, Transform::Log { .. }),
    };
    if logarithmic {
        return Some(Interval { estimate: libm::exp(estimate), low: libm::exp(low), high: libm::exp(high) });
    }
    let base = belief.score[baseline].mean.abs();
    let factor = |difference: f64| 1.0 + difference / base;
    (base > 0.0).then(|| Interval { estimate: factor(estimate), low: factor(low), high: factor(high) })
}
