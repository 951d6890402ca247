//! A tree-structured Parzen estimator over the levels.
//!
//! Bergstra, Bardenet, Bengio, Kegl, "Algorithms for Hyper-Parameter Optimization", 2011, with the split of Optuna's
//! default (a tenth of the trials, 25 at most, after ten random ones) and constraints as in Optuna: trials that break one
//! rank below all that do not.

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::ranked;
use crate::belief::Problem;
use crate::history::Trial;
use crate::space::{Candidate, Scale, Space};

/// Random trials first.
const START: usize = 10;

/// Candidates drawn from the good density; the one with the best ratio is taken.
const DRAWS: usize = 24;

/// Weight of a flat prior, in trials.
const PRIOR: f64 = 1.0;

pub(super) fn next(
    problem: &Problem,
    trials: &[Trial],
    open: &[Candidate],
    generator: &mut ChaCha8Rng,
) -> Option<Candidate> {
    let ranked = ranked(problem, trials);
    if ranked.len() < START {
        return open.choose(generator).copied();
    }
    let split = good_count(ranked.len());
    let space = &problem.spec.space;
    let good = Parzen::of(space, &ranked[..split]);
    let bad = Parzen::of(space, &ranked[split..]);
    let weights: Vec<f64> = open.iter().map(|candidate| libm::exp(good.ln_density(space, *candidate))).collect();
    let numbered: Vec<usize> = (0..open.len()).collect();
    let drawn = (0..DRAWS).filter_map(|_| numbered.choose_weighted(generator, |index| weights[*index]).ok().copied());
    let ratio = |candidate: Candidate| good.ln_density(space, candidate) - bad.ln_density(space, candidate);
    drawn.map(|index| open[index]).reduce(|best, next| if ratio(next) > ratio(best) { next } else { best })
}

/// How many of so many trials are good.
fn good_count(trials: usize) -> usize {
    trials.div_ceil(10).min(25)
}

/// For each parameter, the probability of each level.
struct Parzen(Vec<Vec<f64>>);

impl Parzen {
    fn of(space: &Space, candidates: &[Candidate]) -> Self {
        let each = space.parameters().iter().enumerate().map(|(index, parameter)| {
            let levels = parameter.levels.len();
            let ordered = !matches!(parameter.scale, Scale::Hamming | Scale::Descriptor(_));
            let seen: Vec<usize> = candidates.iter().map(|candidate| space.indices(*candidate)[index]).collect();
            density(levels, ordered, &seen)
        });
        Self(each.collect())
    }

    fn ln_density(&self, space: &Space, candidate: Candidate) -> f64 {
        let levels = space.indices(candidate).iter();
        self.0.iter().zip(levels).map(|(density, level)| libm::log(density[*level])).sum()
    }
}

/// A mixture of kernels around the levels seen, and a flat prior.
fn density(levels: usize, ordered: bool, seen: &[usize]) -> Vec<f64> {
    let mut sums = vec![PRIOR / levels as f64; levels];
    for centre in seen {
        let kernel = kernel(levels, ordered, *centre, seen.len());
        sums.iter_mut().zip(kernel).for_each(|(sum, value)| *sum += value);
    }
    let total: f64 = sums.iter().sum();
    sums.into_iter().map(|sum| sum / total).collect()
}

/// A discrete normal whose width shrinks with the number of trials (Scott), or the level itself and a little elsewhere.
fn kernel(levels: usize, ordered: bool, centre: usize, count: usize) -> Vec<f64> {
    let width = (levels as f64 / (1.0 + count as f64).powf(0.2) / 5.0).max(0.5);
    let raw: Vec<f64> = (0..levels)
        .map(|level| {
            let distance = level.abs_diff(centre) as f64 / width;
            match (ordered, level == centre) {
                (true, _) => libm::exp(-0.5 * distance * distance),
                (false, true) => 1.0,
                (false, false) => 0.0,
            }
        })
        .collect();
    let total: f64 = raw.iter().sum();
    raw.into_iter().map(|value| value / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_good_and_25_at_most() {
        assert_eq!([10, 11, 20, 100, 1000].map(good_count), [1, 2, 2, 10, 25]);
    }

    /// By hand: two trials at level 0 and one at level 2 of three words, each a whole vote, and a third of a vote each:
    /// (2 + 1/3, 1/3, 1 + 1/3) / 4.
    #[test]
    fn density_of_words_counts_votes() {
        let found = density(3, false, &[0, 0, 2]);
        let expected = [7.0 / 12.0, 1.0 / 12.0, 4.0 / 12.0];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{found:?}");
    }

    /// By hand: width 3 / 2^0.2 / 5, weights exp(-d^2 / (2 width^2)) around level 0; one vote and the flat prior.
    #[test]
    fn density_of_numbers_spreads_to_neighbours() {
        let found = density(3, true, &[0]);
        let (near, far) = (0.159_989_054, 0.000_655_181);
        let expected = [1.0, near, far].map(|weight| f64::midpoint(weight / (1.0 + near + far), 1.0 / 3.0));
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
    }
}
