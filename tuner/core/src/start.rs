//! The first trials, before a model knows anything: the running spec, the centre, a random point.
//!
//! With earlier experiments to start from the random point is left out: they say where to go on.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::space::{Candidate, Encoding};
use crate::spec::Spec;

/// Trials before the model chooses.
pub const START_TRIALS: usize = 3;

/// The same with earlier experiments: two are the fewest whose order can contradict a source.
pub const WARM_TRIALS: usize = 2;

/// The next trial of the start design; `None` when it is done.
pub fn next(spec: &Spec, encoding: &Encoding, taken: &BTreeSet<Candidate>, seed: u64) -> Option<Candidate> {
    let trials = if spec.sources.is_empty() { START_TRIALS } else { WARM_TRIALS };
    if taken.len() >= trials {
        return None;
    }
    design(spec, encoding, seed).into_iter().take(trials).find(|candidate| !taken.contains(candidate))
}

/// The start design, in order.
pub fn design(spec: &Spec, encoding: &Encoding, seed: u64) -> Vec<Candidate> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut chosen: Vec<Candidate> = spec.baseline.into_iter().collect();
    let centre = centre(encoding);
    if !chosen.contains(&centre) {
        chosen.push(centre);
    }
    while chosen.len() < START_TRIALS.min(spec.space.len()) {
        let rest: Vec<Candidate> = (0..spec.space.len()).filter(|candidate| !chosen.contains(candidate)).collect();
        let Some(next) = rest.choose(&mut generator) else { break };
        chosen.push(*next);
    }
    chosen
}

/// The candidate nearest to the mean of all, the first of equals.
pub fn centre(encoding: &Encoding) -> Candidate {
    let points = encoding.points();
    let Some(mean) = points.mean_axis(ndarray::Axis(0)) else { return 0 };
    let distance = |candidate: Candidate| -> f64 {
        points.row(candidate).iter().zip(&mean).map(|(value, mean)| (value - mean) * (value - mean)).sum()
    };
    let nearer = |best: Candidate, next: Candidate| if distance(next) < distance(best) - 1e-12 { next } else { best };
    (0..points.nrows()).reduce(nearer).unwrap_or(0)
}
