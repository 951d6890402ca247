//! What the model teaches beyond the answer: which parameters matter, what lies around the optimum.

use serde::Serialize;

use crate::belief::{Belief, Problem};
use crate::recommend::{Interval, believed};
use crate::space::Candidate;

/// How much one parameter explains of how the score varies over all candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Importance {
    /// The parameter.
    pub parameter: String,
    /// Share of the variance that it explains by itself, between 0 and 1.
    pub alone: f64,
    /// Share that is lost without it: with all its interactions.
    pub total: f64,
}

/// Functional analysis of variance of the believed score over the finite set (Hutter, Hoos, Leyton-Brown, "An Efficient
/// Approach for Assessing Hyperparameter Importance", 2014). Exact on a full product; on a table without some
/// combinations the shares are those of the candidates that exist.
pub fn importance(problem: &Problem, belief: &Belief) -> Vec<Importance> {
    let space = &problem.spec.space;
    let scores: Vec<f64> = belief.score.iter().map(|score| score.mean).collect();
    let variance = variance_between(&scores, |candidate| vec![candidate]);
    let share = |part: f64| if variance > 1e-18 { (part / variance).clamp(0.0, 1.0) } else { 0.0 };
    let each = space.parameters().iter().enumerate().map(|(index, parameter)| {
        let alone = variance_between(&scores, |candidate| vec![space.indices(candidate)[index]]);
        let others = variance_between(&scores, |candidate| {
            let mut levels = space.indices(candidate).to_vec();
            levels.remove(index);
            levels
        });
        let total = share(variance - others);
        Importance { parameter: parameter.name.clone(), alone: share(alone).min(total), total }
    });
    each.collect()
}

/// Variance of the group means, groups weighted by their size.
fn variance_between(scores: &[f64], key: impl Fn(Candidate) -> Vec<usize>) -> f64 {
    let mut groups: std::collections::BTreeMap<Vec<usize>, (f64, f64)> = std::collections::BTreeMap::new();
    for (candidate, score) in scores.iter().enumerate() {
        let group = groups.entry(key(candidate)).or_default();
        group.0 += score;
        group.1 += 1.0;
    }
    let count = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / count;
    groups.values().map(|(sum, size)| size / count * (sum / size - mean) * (sum / size - mean)).sum()
}

/// What happens when one parameter of a candidate changes and the rest stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The parameter.
    pub parameter: String,
    /// Its other value.
    pub level: String,
    /// The candidate with it.
    pub candidate: Candidate,
    /// The objective expected there.
    pub value: Interval,
    /// Probability that it runs and meets every constraint.
    pub probability: f64,
}

/// Every candidate that differs in one parameter.
pub fn sensitivity(problem: &Problem, belief: &Belief, candidate: Candidate) -> Vec<Step> {
    let space = &problem.spec.space;
    let own = space.indices(candidate);
    let step = |other: Candidate| {
        let levels = space.indices(other);
        let index = own.iter().zip(levels).position(|(left, right)| left != right)?;
        let parameter = &space.parameters()[index];
        Some(Step {
            parameter: parameter.name.clone(),
            level: parameter.levels[levels[index]].text.clone(),
            candidate: other,
            value: believed(problem, other, belief.score[other]),
            probability: libm::exp(belief.ln_feasible[other]),
        })
    };
    let mut steps: Vec<Step> = space.neighbours(candidate).into_iter().filter_map(step).collect();
    let order = |step: &Step| {
        let levels = space.indices(step.candidate);
        own.iter().zip(levels).position(|(left, right)| left != right).map(|index| (index, levels[index]))
    };
    steps.sort_by_key(order);
    steps
}
