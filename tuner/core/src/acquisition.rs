//! How much each candidate promises: `ln` of the expected constrained improvement.

use crate::belief::Belief;
use crate::gp::Prediction;
use crate::math::normal;
use crate::space::Candidate;

/// `ln E[max(score - best, 0)]`.
pub fn ln_expected_improvement(belief: Prediction, best: f64) -> f64 {
    if belief.sd <= 0.0 {
        let gain = belief.mean - best;
        return if gain > 0.0 { libm::log(gain) } else { f64::NEG_INFINITY };
    }
    normal::ln_improvement((belief.mean - best) / belief.sd) + libm::log(belief.sd)
}

/// `ln` of the improvement expected of a candidate, times the probability that it runs and meets every constraint.
pub fn ln_promise(belief: &Belief, candidate: Candidate, best: f64) -> f64 {
    ln_expected_improvement(belief.score[candidate], best) + belief.ln_feasible[candidate]
}
