//! What was measured, as curves: the Pareto front, and the best so far.

use crate::history::Trial;
use crate::space::Candidate;
use crate::spec::{Bound, Goal, Objective, Spec};

/// Candidates of measured trials that no other one beats in every respect: cost, the objective's metric, and each
/// constrained metric. In rising order of cost.
pub fn pareto(spec: &Spec, trials: &[Trial]) -> Vec<Candidate> {
    let mut points: Vec<(Candidate, Vec<f64>)> =
        trials.iter().filter_map(|trial| losses(spec, trial).map(|losses| (trial.candidate, losses))).collect();
    points.sort_by(|left, right| left.1[0].total_cmp(&right.1[0]).then(left.0.cmp(&right.0)));
    let beaten = |losses: &[f64]| points.iter().any(|(_, other)| dominates(other, losses));
    let mut front: Vec<Candidate> = Vec::new();
    for (candidate, losses) in &points {
        if !beaten(losses) && !front.contains(candidate) {
            front.push(*candidate);
        }
    }
    front
}

/// Less is better in each place. `None` when something was not measured.
fn losses(spec: &Spec, trial: &Trial) -> Option<Vec<f64>> {
    let mut losses = vec![spec.cost_of(trial.candidate)];
    if let Objective::Metric { metric, goal, .. } = &spec.objective {
        let value = trial.measurement(metric)?.value;
        losses.push(if *goal == Goal::Maximize { -value } else { value });
    }
    for constraint in &spec.constraints {
        let value = trial.measurement(&constraint.metric)?.value;
        losses.push(if matches!(constraint.bound, Bound::AtMost(_)) { value } else { -value });
    }
    Some(losses)
}

fn dominates(left: &[f64], right: &[f64]) -> bool {
    let pairs = || left.iter().zip(right);
    pairs().all(|(left, right)| left <= right) && pairs().any(|(left, right)| left < right)
}

/// After each trial, the best objective measured so far that met every constraint.
pub fn convergence(spec: &Spec, trials: &[Trial]) -> Vec<Option<f64>> {
    let mut best: Option<f64> = None;
    let mut curve = Vec::with_capacity(trials.len());
    for trial in trials {
        let value = trial.meets(spec).then(|| trial.value(spec)).flatten();
        best = match (best, value) {
            (Some(best), Some(value)) if spec.goal() == Goal::Maximize => Some(best.max(value)),
            (Some(best), Some(value)) => Some(best.min(value)),
            (best, value) => best.or(value),
        };
        curve.push(best);
    }
    curve
}
