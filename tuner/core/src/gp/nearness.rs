//! Covariances between many candidates and the measurements: candidates share few values in each dimension, so that each
//! distance is worked out once.

use std::collections::BTreeMap;

use ndarray::Array2;

use super::Covariance;
use super::covariance::matern;

/// For each group of columns, each value that candidates have there, and what lies between it and each measurement.
pub struct Nearness {
    groups: Vec<Group>,
    measurements: usize,
}

struct Group {
    /// For each candidate, its value's number.
    value: Vec<usize>,
    /// For each value and measurement: squared distance in length-scales, product of the centred positions, effect.
    parts: Vec<[f64; 3]>,
    /// For each value, the product with itself.
    own: Vec<f64>,
}

impl Nearness {
    /// Of all rows of `points` to the measurements.
    pub fn of(points: &Array2<f64>, measured: &Array2<f64>, columns_of: &[usize], covariance: &Covariance) -> Self {
        let count = covariance.lengths.len();
        let groups = (0..count).map(|group| Group::of(group, points, measured, columns_of, covariance)).collect();
        Self { groups, measurements: measured.nrows() }
    }

    /// Covariances of a candidate with each measurement.
    pub fn covariances(&self, candidate: usize, covariance: &Covariance, into: &mut [f64]) {
        for (measurement, cell) in into.iter_mut().enumerate() {
            let (mut squared, mut product, mut alone) = (0.0, 0.0, 0.0);
            for group in &self.groups {
                let part = group.parts[group.value[candidate] * self.measurements + measurement];
                squared += part[0];
                product += part[1];
                alone += part[2];
            }
            *cell = covariance.value(matern(squared).0, product, alone);
        }
    }

    /// Variance of a candidate before anything is measured.
    pub fn own(&self, candidate: usize, covariance: &Covariance) -> f64 {
        let product = self.groups.iter().map(|group| group.own[group.value[candidate]]).sum();
        covariance.value(1.0, product, self.groups.len() as f64)
    }
}

impl Group {
    fn of(
        group: usize,
        points: &Array2<f64>,
        measured: &Array2<f64>,
        columns_of: &[usize],
        covariance: &Covariance,
    ) -> Self {
        let columns: Vec<usize> = (0..points.ncols()).filter(|column| columns_of[*column] == group).collect();
        let mut numbers: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let mut firsts = Vec::new();
        let mut value = Vec::with_capacity(points.nrows());
        for row in 0..points.nrows() {
            let key: Vec<u64> = columns.iter().map(|column| points[[row, *column]].to_bits()).collect();
            let next = numbers.len();
            let number = *numbers.entry(key).or_insert(next);
            if number == next {
                firsts.push(row);
            }
            value.push(number);
        }
        let length = covariance.lengths[group];
        let mut parts = Vec::with_capacity(firsts.len() * measured.nrows());
        let mut own = Vec::new();
        for row in firsts {
            for measurement in measured.rows() {
                let (mut squared, mut product) = (0.0, 0.0);
                for column in &columns {
                    let (left, right) = (points[[row, *column]], measurement[*column]);
                    squared += (left - right) * (left - right);
                    product += (left - 0.5) * (right - 0.5);
                }
                squared /= length * length;
                parts.push([squared, product, matern(squared).0]);
            }
            own.push(columns.iter().map(|column| (points[[row, *column]] - 0.5).powi(2)).sum());
        }
        Self { value, parts, own }
    }
}
