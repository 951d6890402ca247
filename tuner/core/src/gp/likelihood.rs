//! The log posterior of hyper-parameters, with its gradient.

use ndarray::Array2;

use super::covariance::matern;
use super::{Covariance, Pairs, Priors};
use crate::math::cholesky::Cholesky;
use crate::math::normal::LN_SQRT_2PI;

/// Measurements of one metric.
#[derive(Clone, Debug)]
pub struct Data {
    /// One row a measurement.
    pub points: Array2<f64>,
    /// For each column, its length-scale.
    pub groups: Vec<usize>,
    /// What was measured, less any prior mean.
    pub values: Vec<f64>,
    /// Variance that each measurement knows of itself.
    pub variances: Vec<f64>,
}

/// Negative log marginal likelihood of `logarithms` (lengths, signal, slope, additive, noise) plus the penalty of the priors, and
/// its gradient. `None` where the covariance has no factor.
pub fn likelihood(data: &Data, pairs: &Pairs, priors: &Priors, logarithms: &[f64]) -> Option<(f64, Vec<f64>)> {
    let covariance = Covariance::from_logarithms(logarithms, priors.constant);
    let size = data.values.len();
    let (mut matrix, parts) = correlations(pairs, size, &covariance);
    for (row, variance) in data.variances.iter().enumerate() {
        matrix[[row, row]] += covariance.noise * covariance.noise + variance;
    }
    let cholesky = Cholesky::new(&matrix)?;
    let alpha = cholesky.solve(&data.values);
    let fit: f64 = data.values.iter().zip(&alpha).map(|(value, weight)| value * weight).sum();
    let mut cost = 0.5 * fit + 0.5 * cholesky.ln_determinant() + size as f64 * LN_SQRT_2PI;
    let mut gradient = trace(pairs, &covariance, &parts, &cholesky.inverse(), &alpha);
    for ((logarithm, slot), prior) in logarithms.iter().zip(&mut gradient).zip(prior_of_each(priors, logarithms.len()))
    {
        let (penalty, derivative) = prior.penalty(*logarithm);
        cost += penalty;
        *slot += derivative;
    }
    cost.is_finite().then_some((cost, gradient))
}

/// Covariances of `size` points with each other, without noise.
pub fn matrix(pairs: &Pairs, size: usize, covariance: &Covariance) -> Array2<f64> {
    correlations(pairs, size, covariance).0
}

fn correlations(pairs: &Pairs, size: usize, covariance: &Covariance) -> (Array2<f64>, Vec<Part>) {
    let squared = scaled(pairs, covariance);
    let effects: Vec<Vec<(f64, f64)>> = pairs
        .distinct
        .iter()
        .zip(&covariance.lengths)
        .map(|(distinct, length)| distinct.squared.iter().map(|squared| matern(squared / (length * length))).collect())
        .collect();
    let mut matrix = Array2::zeros((size, size));
    let mut parts = Vec::with_capacity(squared.len());
    for row in 0..size {
        for column in 0..=row {
            let index = parts.len();
            let part = Part::of(pairs, &effects, index, squared[index]);
            let alone = part.alone.iter().map(|alone| alone.0).sum();
            let cell = covariance.value(part.joint.0, pairs.product[index], alone);
            matrix[[row, column]] = cell;
            matrix[[column, row]] = cell;
            parts.push(part);
        }
    }
    (matrix, parts)
}

/// `1/2 tr((K^-1 - alpha alpha^T) dK)` for each hyper-parameter.
fn trace(pairs: &Pairs, covariance: &Covariance, parts: &[Part], inverse: &Array2<f64>, alpha: &[f64]) -> Vec<f64> {
    let groups = covariance.lengths.len();
    let mut gradient = vec![0.0; groups + 4];
    let signal2 = covariance.signal * covariance.signal;
    let additive2 = covariance.additive * covariance.additive;
    let mut index = 0;
    for row in 0..alpha.len() {
        for column in 0..=row {
            let half = if row == column { 0.5 } else { 1.0 };
            let weight = half * (inverse[[row, column]] - alpha[row] * alpha[column]);
            let Part { joint, alone } = &parts[index];
            for (group, squared) in pairs.squared.iter().enumerate() {
                gradient[group] += weight * (signal2 * joint.1 + additive2 * alone[group].1) * squared[index];
            }
            gradient[groups] += weight * 2.0 * signal2 * joint.0;
            gradient[groups + 1] += weight * 2.0 * covariance.slope * covariance.slope * pairs.product[index];
            gradient[groups + 2] += weight * 2.0 * additive2 * alone.iter().map(|alone| alone.0).sum::<f64>();
            if row == column {
                gradient[groups + 3] += weight * 2.0 * covariance.noise * covariance.noise;
            }
            index += 1;
        }
    }
    gradient.iter_mut().zip(&covariance.lengths).for_each(|(slot, length)| *slot /= length * length);
    gradient
}

/// Correlations of one pair, and minus twice their derivatives by the squared distance.
struct Part {
    joint: (f64, f64),
    alone: Vec<(f64, f64)>,
}

impl Part {
    fn of(pairs: &Pairs, effects: &[Vec<(f64, f64)>], index: usize, squared: f64) -> Self {
        let groups = pairs.distinct.iter().zip(effects);
        let alone = groups.map(|(distinct, effects)| effects[distinct.number[index]]).collect();
        Self { joint: matern(squared), alone }
    }
}

fn scaled(pairs: &Pairs, covariance: &Covariance) -> Vec<f64> {
    let mut sums = vec![0.0; pairs.product.len()];
    for (squared, length) in pairs.squared.iter().zip(&covariance.lengths) {
        let weight = 1.0 / (length * length);
        sums.iter_mut().zip(squared).for_each(|(sum, squared)| *sum += weight * squared);
    }
    sums
}

/// The prior of each logarithm, in their order.
pub(super) fn prior_of_each(priors: &Priors, count: usize) -> impl Iterator<Item = super::LogNormal> {
    let lengths = std::iter::repeat_n(priors.length, count - 4);
    lengths.chain([priors.signal, priors.slope, priors.additive, priors.noise])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        let points = ndarray::array![[0.0, 0.1], [0.3, 1.0], [0.5, 0.4], [0.9, 0.2], [1.0, 0.8]];
        Data {
            points,
            groups: vec![0, 1],
            values: vec![-1.0, 0.2, 0.1, 0.9, 1.4],
            variances: vec![0.0, 0.01, 0.0, 0.02, 0.0],
        }
    }

    #[test]
    fn gradient_is_the_finite_difference() {
        let (data, priors) = (data(), Priors::new(2, 1.0));
        let pairs = Pairs::of(&data.points, &data.groups);
        for at in
            [[-0.2, 0.3, 0.1, 0.2, 0.3, -2.0], [-1.5, 1.0, -1.0, -2.0, -1.0, -1.0], [2.0, -0.5, 1.0, 0.5, -0.5, -4.0]]
        {
            let (_, gradient) = likelihood(&data, &pairs, &priors, &at).unwrap();
            for (index, analytic) in gradient.iter().enumerate() {
                let cost = |step: f64| {
                    let mut moved = at;
                    moved[index] += step;
                    likelihood(&data, &pairs, &priors, &moved).unwrap().0
                };
                let numeric = (cost(1e-5) - cost(-1e-5)) / 2e-5;
                assert!((analytic - numeric).abs() < 1e-5 * (1.0 + numeric.abs()), "{index}: {analytic}, {numeric}");
            }
        }
    }
}
