//! What is expected of a candidate before it is tried.

use super::attempt::Attempt;
use crate::belief::Problem;
use crate::gp::Prediction;
use crate::history::Trial;
use crate::space::Candidate;
use crate::spec::{Goal, Objective, Transform};

/// Fewer measurements predict nothing that a search for the highest rate could begin with.
const LEAST_MEASURED: usize = 3;
/// Deviation of the logarithm: a wider one saves no probe, a narrower one is too sure of itself.
const WIDEST: f64 = 0.7;
const NARROWEST: f64 = 0.05;

/// `ln` of what a maximised metric on a logarithmic scale is expected to be, where that is known well enough for a trial
/// to begin there.
pub fn expected(problem: &Problem, attempts: &[Attempt], candidate: Candidate) -> Option<Prediction> {
    let Objective::Metric { goal: Goal::Maximize, transform: Transform::Log { .. }, per_cost, .. } =
        &problem.spec.objective
    else {
        return None;
    };
    let trials: Vec<Trial> = attempts.iter().map(Attempt::trial).collect();
    if trials.iter().filter(|trial| trial.works() == Some(true)).count() < LEAST_MEASURED {
        return None;
    }
    let score = problem.believe(&trials).score[candidate];
    let cost = if *per_cost { libm::log(problem.spec.cost_of(candidate)) } else { 0.0 };
    (score.sd <= WIDEST).then(|| Prediction { mean: score.mean + cost, sd: score.sd.max(NARROWEST) })
}
