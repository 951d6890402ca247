//! Will it run at all? A Gaussian process over a probit, by Laplace's approximation.
//!
//! Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithms 3.1 and 3.2.

use std::collections::BTreeMap;

use ndarray::Array2;

use crate::gp::{Covariance, LogNormal, Nearness, Pairs, Priors, matrix};
use crate::math::cholesky::Cholesky;
use crate::math::normal;
use crate::space::Candidate;

/// Newton steps to the mode; the likelihood is log-concave, so a few are enough.
const NEWTON_STEPS: usize = 50;

/// Steps of the logarithm of one length-scale.
const LENGTH_STEPS: [f64; 3] = [-1.0, 1.0, 2.0];

/// Rounds over all length-scales.
const SWEEPS: usize = 2;

/// How far a length-scale may be from the typical one.
const LENGTH: LogNormal = LogNormal { mean: 0.0, sd: 1.5 };

/// Spreads of the latent function tried: how sharp the edge may be.
const SIGNALS: [f64; 3] = [1.0, 2.5, 6.0];

/// Most candidates run: four fifths, before anything is known.
const PRIOR_SHARE_Z: f64 = 0.84;

/// Trials that the classifier counts for, once the candidate itself was tried: a spec that ran will run again, mostly.
const CLASSIFIER_TRIALS: f64 = 0.1;

/// How often a candidate was tried itself, and how often it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    ran: f64,
    tried: f64,
}

/// The record of each candidate that was tried.
pub fn records(known: &[(Candidate, bool)]) -> BTreeMap<Candidate, Record> {
    let mut records: BTreeMap<Candidate, Record> = BTreeMap::new();
    for (candidate, works) in known {
        let record = records.entry(*candidate).or_default();
        record.ran += f64::from(u8::from(*works));
        record.tried += 1.0;
    }
    records
}

impl Record {
    /// `ln` of the probability that it runs again, from that which its neighbours suggest.
    pub fn ln_probability(self, ln_classified: f64) -> f64 {
        let expected = CLASSIFIER_TRIALS * libm::exp(ln_classified);
        libm::log((self.ran + expected) / (self.tried + CLASSIFIER_TRIALS))
    }
}

/// A classifier fitted to which candidates ran.
#[derive(Clone, Debug)]
pub struct Classifier {
    points: Array2<f64>,
    groups: Vec<usize>,
    covariance: Covariance,
    gradient: Vec<f64>,
    roots: Vec<f64>,
    cholesky: Cholesky,
}

struct Mode {
    evidence: f64,
    gradient: Vec<f64>,
    roots: Vec<f64>,
    cholesky: Cholesky,
}

impl Classifier {
    /// Fits to `works`, one answer a row. `None` when all ran, or nothing is known: then every candidate may.
    pub fn fit(points: &Array2<f64>, groups: &[usize], works: &[bool]) -> Option<Self> {
        if works.iter().all(|works| *works) {
            return None;
        }
        let signs: Vec<f64> = works.iter().map(|works| if *works { 1.0 } else { -1.0 }).collect();
        let dimensions = groups.iter().max().map_or(0, |last| last + 1);
        let priors = Priors::new(dimensions, 1.0);
        let mut search = Search { pairs: Pairs::of(points, groups), signs: &signs, priors, best: None };
        search.try_all(dimensions);
        let (_, covariance, Mode { gradient, roots, cholesky, .. }) = search.best?;
        Some(Self { points: points.clone(), groups: groups.to_vec(), covariance, gradient, roots, cholesky })
    }

    /// `ln` of the probability that each candidate runs.
    pub fn ln_probabilities(&self, points: &Array2<f64>) -> Vec<f64> {
        let near = Nearness::of(points, &self.points, &self.groups, &self.covariance);
        let mut cross = vec![0.0; self.gradient.len()];
        let probability = |row| {
            near.covariances(row, &self.covariance, &mut cross);
            let latent: f64 =
                PRIOR_SHARE_Z + cross.iter().zip(&self.gradient).map(|(left, right)| left * right).sum::<f64>();
            cross.iter_mut().zip(&self.roots).for_each(|(value, root)| *value *= root);
            self.cholesky.forward(&mut cross);
            let explained: f64 = cross.iter().map(|value| value * value).sum();
            let variance = (near.own(row, &self.covariance) - explained).max(0.0);
            normal::ln_cdf(latent / (1.0 + variance).sqrt())
        };
        (0..points.nrows()).map(probability).collect()
    }
}

/// A search over hyper-parameters, one at a time, for the most evidence.
struct Search<'a> {
    pairs: Pairs,
    signs: &'a [f64],
    priors: Priors,
    best: Option<(f64, Covariance, Mode)>,
}

impl Search<'_> {
    fn try_all(&mut self, dimensions: usize) {
        for signal in SIGNALS {
            self.try_one(&vec![self.priors.length.mean; dimensions], signal);
        }
        for _ in 0..SWEEPS {
            for group in 0..dimensions {
                for step in LENGTH_STEPS {
                    let Some((_, best, _)) = &self.best else { return };
                    let (mut logarithms, signal): (Vec<f64>, f64) =
                        (best.lengths.iter().map(|length| libm::log(*length)).collect(), best.signal);
                    logarithms[group] += step;
                    self.try_one(&logarithms, signal);
                }
            }
        }
    }

    /// Keeps these hyper-parameters when they have more evidence than the best so far.
    fn try_one(&mut self, logarithms: &[f64], signal: f64) {
        let covariance = Covariance {
            lengths: logarithms.iter().map(|logarithm| libm::exp(*logarithm)).collect(),
            signal,
            slope: signal,
            additive: signal,
            noise: 0.1,
            constant: 1.0,
        };
        let penalty: f64 =
            logarithms.iter().map(|logarithm| LENGTH.penalty(logarithm - self.priors.length.mean).0).sum();
        let mut kernel = matrix(&self.pairs, self.signs.len(), &covariance);
        kernel.diag_mut().iter_mut().for_each(|cell| *cell += covariance.noise * covariance.noise);
        let Some(mode) = mode(&kernel, self.signs) else { return };
        let evidence = mode.evidence - penalty;
        if self.best.as_ref().is_none_or(|(most, ..)| evidence > most + 1e-9) {
            self.best = Some((evidence, covariance, mode));
        }
    }
}

/// Newton's method for the mode of the latent function, less its prior mean.
fn mode(kernel: &Array2<f64>, signs: &[f64]) -> Option<Mode> {
    let size = signs.len();
    let mut latent = vec![0.0; size];
    let mut last = f64::NEG_INFINITY;
    let mut found = None;
    for _ in 0..NEWTON_STEPS {
        let (gradient, weights) = slopes(&latent, signs);
        let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
        let inner = Array2::from_shape_fn((size, size), |(row, column)| {
            f64::from(u8::from(row == column)) + roots[row] * kernel[[row, column]] * roots[column]
        });
        let cholesky = Cholesky::new(&inner)?;
        let target: Vec<f64> = (0..size).map(|row| weights[row] * latent[row] + gradient[row]).collect();
        let product = times(kernel, &target);
        let scaled: Vec<f64> = product.iter().zip(&roots).map(|(value, root)| value * root).collect();
        let solved = cholesky.solve(&scaled);
        let weight: Vec<f64> = (0..size).map(|row| target[row] - roots[row] * solved[row]).collect();
        latent = times(kernel, &weight);
        let fit: f64 = weight.iter().zip(&latent).map(|(left, right)| left * right).sum();
        let value = ln_likelihood(&latent, signs) - 0.5 * fit;
        let evidence = value - 0.5 * cholesky.ln_determinant();
        found = Some(Mode { evidence, gradient: slopes(&latent, signs).0, roots, cholesky });
        if (value - last).abs() < 1e-9 {
            break;
        }
        last = value;
    }
    found
}

fn times(matrix: &Array2<f64>, vector: &[f64]) -> Vec<f64> {
    matrix.rows().into_iter().map(|row| row.iter().zip(vector).map(|(left, right)| left * right).sum()).collect()
}

/// First derivative and negative second derivative of the log likelihood (equation 3.16).
fn slopes(latent: &[f64], signs: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let each = latent.iter().zip(signs).map(|(latent, sign)| {
        let z = sign * (latent + PRIOR_SHARE_Z);
        let hazard = normal::hazard(z);
        (sign * hazard, (hazard * (hazard + z)).max(1e-12))
    });
    each.unzip()
}

fn ln_likelihood(latent: &[f64], signs: &[f64]) -> f64 {
    latent.iter().zip(signs).map(|(latent, sign)| normal::ln_cdf(sign * (latent + PRIOR_SHARE_Z))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge() -> Classifier {
        let points = Array2::from_shape_fn((6, 1), |(row, _)| row as f64 / 5.0);
        Classifier::fit(&points, &[0], &[false, false, false, true, true, true]).unwrap()
    }

    #[test]
    fn edge_between_failed_and_working_is_found() {
        let classifier = edge();
        let probability = |x: f64| libm::exp(classifier.ln_probabilities(&ndarray::array![[x]])[0]);
        assert!(probability(0.0) < 0.25 && probability(1.0) > 0.75, "{} {}", probability(0.0), probability(1.0));
        assert!(probability(0.3) < 0.5 && probability(0.7) > 0.5);
    }

    #[test]
    fn spec_that_ran_is_not_doubted_for_what_failed_beside_it() {
        let records = records(&[(4, true), (5, true), (5, true), (6, false), (7, true), (7, false)]);
        let chance = |candidate, classified: f64| libm::exp(records[&candidate].ln_probability(libm::log(classified)));
        assert!(chance(4, 0.5) > 0.95 && chance(4, 0.1) < 0.95, "{}", chance(4, 0.5));
        assert!(chance(5, 0.1) > 0.95, "it ran twice: {}", chance(5, 0.1));
        assert!(chance(6, 0.9) < 0.1 && (chance(7, 0.5) - 0.5).abs() < 1e-9);
        assert!(!records.contains_key(&3));
    }

    #[test]
    fn nothing_is_doubted_while_all_ran() {
        assert!(Classifier::fit(&ndarray::array![[0.0], [1.0]], &[0], &[true, true]).is_none());
        assert!(Classifier::fit(&Array2::zeros((0, 1)), &[0], &[]).is_none());
    }

    #[test]
    fn all_failed_still_leaves_hope_far_away() {
        let points = ndarray::array![[0.0], [0.05]];
        let classifier = Classifier::fit(&points, &[0], &[false, false]).unwrap();
        let at = |x: f64| classifier.ln_probabilities(&ndarray::array![[x]])[0];
        assert!(at(0.0) < at(1.0) && at(1.0) > -3.0);
    }
}
