//! The covariance function and its derivatives.

use std::collections::BTreeMap;

use ndarray::ArrayView1;

const SQRT_5: f64 = 2.236_067_977_499_79;

/// Hyper-parameters on their natural scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Covariance {
    /// Length-scale of each group of columns.
    pub lengths: Vec<f64>,
    /// Standard deviation of the Matern part.
    pub signal: f64,
    /// Standard deviation of each slope.
    pub slope: f64,
    /// Standard deviation of the effect that each group has by itself.
    pub additive: f64,
    /// Standard deviation of the fitted noise.
    pub noise: f64,
    /// Standard deviation of the constant.
    pub constant: f64,
}

impl Covariance {
    /// From logarithms in the order lengths, signal, slope, additive, noise.
    pub fn from_logarithms(logarithms: &[f64], constant: f64) -> Self {
        let groups = logarithms.len() - 4;
        let mut values: Vec<f64> = logarithms.iter().map(|value| libm::exp(value.clamp(-20.0, 20.0))).collect();
        let rest = values.split_off(groups);
        Self { lengths: values, signal: rest[0], slope: rest[1], additive: rest[2], noise: rest[3], constant }
    }

    /// Covariance of two points without noise.
    pub fn between(&self, groups: &[usize], left: &ArrayView1<f64>, right: &ArrayView1<f64>) -> f64 {
        let (mut total, mut sum, mut product, mut alone, mut last) = (0.0, 0.0, 0.0, 0.0, 0);
        for ((left, right), group) in left.iter().zip(right).zip(groups) {
            if *group != last {
                alone += matern(sum).0;
                total += sum;
                (sum, last) = (0.0, *group);
            }
            let scaled = (left - right) / self.lengths[*group];
            sum += scaled * scaled;
            product += (left - 0.5) * (right - 0.5);
        }
        if !groups.is_empty() {
            alone += matern(sum).0;
        }
        self.value(matern(total + sum).0, product, alone)
    }

    /// Covariance of two points by its parts.
    pub fn value(&self, joint: f64, product: f64, alone: f64) -> f64 {
        self.constant * self.constant
            + self.slope * self.slope * product
            + self.signal * self.signal * joint
            + self.additive * self.additive * alone
    }
}

/// Matern-5/2 of a squared distance, and `-2` times its derivative by the squared distance.
pub fn matern(squared: f64) -> (f64, f64) {
    let distance = SQRT_5 * squared.sqrt();
    let decay = libm::exp(-distance);
    ((1.0 + distance + squared * (5.0 / 3.0)) * decay, (5.0 / 3.0) * (1.0 + distance) * decay)
}

/// What all pairs of training points have in common over every evaluation of the likelihood.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// For each group, the squared distance of each pair `(row, column <= row)`.
    pub squared: Vec<Vec<f64>>,
    /// For each group, the distances that there are: levels are few, so that many pairs are equally far apart.
    pub(super) distinct: Vec<Distinct>,
    /// Product of the centred positions of each pair.
    pub product: Vec<f64>,
}

impl Pairs {
    /// All pairs of these points.
    pub fn of(points: &ndarray::Array2<f64>, groups: &[usize]) -> Self {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let size = points.nrows();
        let mut squared = vec![Vec::with_capacity(size * (size + 1) / 2); count];
        let mut product = Vec::with_capacity(size * (size + 1) / 2);
        for row in 0..size {
            for column in 0..=row {
                let mut sums = vec![0.0; count];
                let mut dot = 0.0;
                for (index, group) in groups.iter().enumerate() {
                    let (left, right) = (points[[row, index]], points[[column, index]]);
                    sums[*group] += (left - right) * (left - right);
                    dot += (left - 0.5) * (right - 0.5);
                }
                squared.iter_mut().zip(sums).for_each(|(pairs, sum)| pairs.push(sum));
                product.push(dot);
            }
        }
        let distinct = squared.iter().map(|pairs| Distinct::of(pairs)).collect();
        Self { squared, distinct, product }
    }
}

/// The distances among the pairs of one group, each once.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    /// Squared distances.
    pub(super) squared: Vec<f64>,
    /// For each pair, which of them it has.
    pub(super) number: Vec<usize>,
}

impl Distinct {
    fn of(pairs: &[f64]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut squared = Vec::new();
        let mut number = |distance: &f64| {
            *numbers.entry(distance.to_bits()).or_insert_with(|| {
                squared.push(*distance);
                squared.len() - 1
            })
        };
        let number = pairs.iter().map(&mut number).collect();
        Self { squared, number }
    }
}
