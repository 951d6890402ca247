//! The best candidate so far, and the ones that may be it.

use std::collections::BTreeMap;

use crate::belief::{Belief, Problem};
use crate::history::Trial;
use crate::space::Candidate;
use crate::spec::Spec;

/// A candidate with noisy measurements is good when this is the chance that its constraints truly hold.
const EVEN_CHANCE: f64 = 0.5;

/// What was measured of one candidate, over all its trials.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    meets: bool,
    noisy: bool,
}

/// Candidates that were measured and meet every constraint, in rising order. Where trials know their noise, the model
/// has a say too: a lucky measurement alone is not enough.
pub fn good(problem: &Problem, belief: &Belief, trials: &[Trial]) -> Vec<Candidate> {
    let kept = |(candidate, measured): (Candidate, Measured)| {
        let likely = !measured.noisy || belief.ln_feasible[candidate] >= libm::log(EVEN_CHANCE);
        (measured.meets && likely).then_some(candidate)
    };
    measured(problem.spec, trials).into_iter().filter_map(kept).collect()
}

/// The good candidate with the best score believed.
pub fn incumbent(problem: &Problem, belief: &Belief, trials: &[Trial]) -> Option<Candidate> {
    let better = |best: Candidate, next: Candidate| {
        if belief.score[next].mean > belief.score[best].mean { next } else { best }
    };
    good(problem, belief, trials).into_iter().reduce(better)
}

/// Measured candidates by how likely each is the one to run: the first `count` deserve a longer measurement.
pub fn to_confirm(problem: &Problem, belief: &Belief, trials: &[Trial], count: usize) -> Vec<Candidate> {
    let mut ranked: Vec<(f64, Candidate)> = measured(problem.spec, trials)
        .into_keys()
        .map(|candidate| (belief.score[candidate].mean, candidate))
        .filter(|(_, candidate)| belief.ln_feasible[*candidate] >= libm::log(0.05))
        .collect();
    ranked.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    ranked.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

/// For each measured candidate, whether the mean of its measurements meets every constraint.
fn measured(spec: &Spec, trials: &[Trial]) -> BTreeMap<Candidate, Measured> {
    let mut by_candidate: BTreeMap<Candidate, Vec<&Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.works() == Some(true) && trial.value(spec).is_some()) {
        by_candidate.entry(trial.candidate).or_default().push(trial);
    }
    let judge = |(candidate, trials): (Candidate, Vec<&Trial>)| {
        let mut held = spec.constraints.iter().map(|constraint| {
            let found: Vec<f64> = trials
                .iter()
                .filter_map(|trial| trial.measurement(&constraint.metric))
                .map(|found| constraint.transform.forward(found.value))
                .collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let limit = constraint.transform.forward(constraint.bound.limit());
            // A single measurement is compared as it is: no rounding by the transform.
            match trials.as_slice() {
                [only] => only.measurement(&constraint.metric).is_some_and(|found| constraint.bound.holds(found.value)),
                _ => match constraint.bound {
                    crate::spec::Bound::AtMost(_) => mean <= limit,
                    crate::spec::Bound::AtLeast(_) => mean >= limit,
                },
            }
        });
        let meets = held.all(|holds| holds);
        let noisy = trials.iter().any(|trial| trial.noisy());
        (candidate, Measured { meets, noisy })
    };
    by_candidate.into_iter().map(judge).collect()
}
