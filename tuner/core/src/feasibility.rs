//! Will it run at all? A Gaussian process over a probit, by Laplace's approximation.
//!
//! Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithms 3.1 and 3.2.

use ndarray::{Array2, ArrayView1};

use crate::gp::{Covariance, LogNormal, Priors};
use crate::math::cholesky::Cholesky;
use crate::math::normal;

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
        let mut search = Search { points, groups, signs: &signs, priors, best: None };
        search.try_all(dimensions);
        let (_, covariance, Mode { gradient, roots, cholesky, .. }) = search.best?;
        Some(Self { points: points.clone(), groups: groups.to_vec(), covariance, gradient, roots, cholesky })
    }

    /// `ln` of the probability that a candidate runs.
    pub fn ln_probability(&self, point: &ArrayView1<f64>) -> f64 {
        let cross: Vec<f64> =
            self.points.rows().into_iter().map(|row| self.covariance.between(&self.groups, &row, point)).collect();
        let latent: f64 =
            PRIOR_SHARE_Z + cross.iter().zip(&self.gradient).map(|(left, right)| left * right).sum::<f64>();
        let mut scaled: Vec<f64> = cross.iter().zip(&self.roots).map(|(value, root)| value * root).collect();
        self.cholesky.forward(&mut scaled);
        let explained: f64 = scaled.iter().map(|value| value * value).sum();
        let variance = (self.covariance.between(&self.groups, point, point) - explained).max(0.0);
        normal::ln_cdf(latent / (1.0 + variance).sqrt())
    }
}

/// A search over hyper-parameters, one at a time, for the most evidence.
struct Search<'a> {
    points: &'a Array2<f64>,
    groups: &'a [usize],
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
        let Some(mode) = mode(&matrix(self.points, self.groups, &covariance), self.signs) else { return };
        let evidence = mode.evidence - penalty;
        if self.best.as_ref().is_none_or(|(most, ..)| evidence > most + 1e-9) {
            self.best = Some((evidence, covariance, mode));
        }
    }
}

fn matrix(points: &Array2<f64>, groups: &[usize], covariance: &Covariance) -> Array2<f64> {
    let size = points.nrows();
    Array2::from_shape_fn((size, size), |(row, column)| {
        let noise = if row == column { covariance.noise * covariance.noise } else { 0.0 };
        covariance.between(groups, &points.row(row), &points.row(column)) + noise
    })
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
        let probability = |x: f64| libm::exp(classifier.ln_probability(&ndarray::array![x].view()));
        assert!(probability(0.0) < 0.25 && probability(1.0) > 0.75, "{} {}", probability(0.0), probability(1.0));
        assert!(probability(0.3) < 0.5 && probability(0.7) > 0.5);
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
        let at = |x: f64| classifier.ln_probability(&ndarray::array![x].view());
        assert!(at(0.0) < at(1.0) && at(1.0) > -3.0);
    }
}
