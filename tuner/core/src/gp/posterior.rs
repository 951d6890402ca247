//! What a fitted process says about candidates.

use ndarray::{Array2, ArrayView1};

use super::{Covariance, Data, Nearness};
use crate::math::cholesky::Cholesky;

/// A belief about one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, without measurement noise.
    pub sd: f64,
}

/// A process conditioned on its data.
#[derive(Clone, Debug)]
pub struct GaussianProcess {
    data: Data,
    covariance: Covariance,
    cholesky: Cholesky,
    alpha: Vec<f64>,
    centre: f64,
}

impl GaussianProcess {
    /// Conditions a process with these hyper-parameters. `None` when the covariance has no factor.
    pub fn new(data: Data, covariance: Covariance) -> Option<Self> {
        let size = data.values.len();
        let mut matrix = Array2::zeros((size, size));
        for row in 0..size {
            for column in 0..=row {
                let value = covariance.between(&data.groups, &data.points.row(row), &data.points.row(column));
                matrix[[row, column]] = value;
                matrix[[column, row]] = value;
            }
            matrix[[row, row]] += covariance.noise * covariance.noise + data.variances[row];
        }
        let cholesky = Cholesky::new(&matrix)?;
        let alpha = cholesky.solve(&data.values);
        Some(Self { data, covariance, cholesky, alpha, centre: 0.0 })
    }

    /// Adds a constant to every prediction: the mean that was taken off the data.
    #[must_use]
    pub fn with_centre(mut self, centre: f64) -> Self {
        self.centre = centre;
        self
    }

    /// Its hyper-parameters.
    pub fn covariance(&self) -> &Covariance {
        &self.covariance
    }

    /// Belief about one point.
    pub fn predict(&self, point: &ArrayView1<f64>) -> Prediction {
        let groups = &self.data.groups;
        let mut cross: Vec<f64> =
            self.data.points.rows().into_iter().map(|row| self.covariance.between(groups, &row, point)).collect();
        let mean: f64 = cross.iter().zip(&self.alpha).map(|(value, weight)| value * weight).sum();
        self.cholesky.forward(&mut cross);
        let explained: f64 = cross.iter().map(|value| value * value).sum();
        let variance = self.covariance.between(groups, point, point) - explained;
        Prediction { mean: mean + self.centre, sd: variance.max(0.0).sqrt() }
    }

    /// Belief about each row.
    pub fn predict_all(&self, points: &Array2<f64>) -> Vec<Prediction> {
        let near = Nearness::of(points, &self.data.points, &self.data.groups, &self.covariance);
        let mut cross = vec![0.0; self.data.values.len()];
        let predict = |row| {
            near.covariances(row, &self.covariance, &mut cross);
            let mean: f64 = cross.iter().zip(&self.alpha).map(|(value, weight)| value * weight).sum();
            self.cholesky.forward(&mut cross);
            let explained: f64 = cross.iter().map(|value| value * value).sum();
            let variance = near.own(row, &self.covariance) - explained;
            Prediction { mean: mean + self.centre, sd: variance.max(0.0).sqrt() }
        };
        (0..points.nrows()).map(predict).collect()
    }

    /// What the process would have said of each measurement without it (Rasmussen and Williams 5.12), noise included.
    pub fn leave_one_out(&self) -> Vec<Prediction> {
        let inverse = self.cholesky.inverse();
        let each = self.data.values.iter().zip(&self.alpha).zip(inverse.diag());
        let predict = |((value, weight), precision): ((&f64, &f64), &f64)| Prediction {
            mean: value - weight / precision + self.centre,
            sd: (1.0 / precision).max(0.0).sqrt(),
        };
        each.map(predict).collect()
    }

    /// The same process after this point was measured to be what it expects: it is no longer uncertain there.
    #[must_use]
    pub fn believing(&self, points: &Array2<f64>) -> Self {
        let mut data = self.data.clone();
        for point in points.rows() {
            let expected = self.predict(&point).mean - self.centre;
            data.values.push(expected);
            data.variances.push(0.0);
            if data.points.push_row(point).is_err() {
                return self.clone();
            }
        }
        let believing = Self::new(data, self.covariance.clone());
        believing.map_or_else(|| self.clone(), |process| process.with_centre(self.centre))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::{Priors, fit};

    fn line(count: u32) -> Data {
        let points = Array2::from_shape_fn((count as usize, 1), |(row, _)| row as f64 / f64::from(count - 1));
        let values = points.column(0).iter().map(|x| 2.0 * x - 1.0).collect();
        Data { points, groups: vec![0], values, variances: vec![0.0; count as usize] }
    }

    fn known() -> GaussianProcess {
        let data = Data {
            points: ndarray::array![[0.0, 0.1], [0.3, 1.0], [0.5, 0.4], [0.9, 0.2]],
            groups: vec![0, 1],
            values: vec![-1.0, 0.2, 0.1, 0.9],
            variances: vec![0.0, 0.01, 0.0, 0.02],
        };
        let covariance =
            Covariance { lengths: vec![0.5, 1.2], signal: 0.8, slope: 1.1, additive: 0.6, noise: 0.05, constant: 2.0 };
        GaussianProcess::new(data, covariance).unwrap()
    }

    /// The covariance written out in numpy: constant^2 + slope^2 (x - 1/2).(x' - 1/2) + signal^2 M(sum d^2) +
    /// additive^2 sum M(d^2), with d = (x - x') / length, M the Matern-5/2 function; `c @ solve(K, y)` and
    /// `sqrt(k(x, x) - c @ solve(K, c))`.
    #[test]
    fn prediction_is_that_of_numpy() {
        let found = known().predict(&ndarray::array![0.7, 0.6].view());
        assert!((found.mean - 0.695_358_963_137_113).abs() < 1e-10, "{found:?}");
        assert!((found.sd - 0.359_901_323_964_878_9).abs() < 1e-10, "{found:?}");
    }

    /// `y @ solve(K, y) / 2 + slogdet(K)[1] / 2 + 2 log(2 pi)` of the same covariance.
    #[test]
    fn likelihood_is_that_of_numpy() {
        let process = known();
        let pairs = crate::gp::Pairs::of(&process.data.points, &process.data.groups);
        let logarithms: Vec<f64> = [0.5, 1.2, 0.8, 1.1, 0.6, 0.05].iter().map(|value: &f64| value.ln()).collect();
        let flat = crate::gp::LogNormal { mean: 0.0, sd: 1e9 };
        let priors = Priors { length: flat, signal: flat, slope: flat, additive: flat, noise: flat, constant: 2.0 };
        let (cost, _) = crate::gp::likelihood(&process.data, &pairs, &priors, &logarithms).unwrap();
        assert!((cost - 5.408_577_138_113_063).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn all_at_once_is_one_after_the_other() {
        let points =
            Array2::from_shape_fn(
                (12, 2),
                |(row, column)| {
                    if column == 0 { (row % 4) as f64 / 3.0 } else { (row / 4) as f64 / 2.0 }
                },
            );
        let process = known();
        for (row, found) in process.predict_all(&points).iter().enumerate() {
            let single = process.predict(&points.row(row));
            assert!(
                (found.mean - single.mean).abs() < 1e-10 && (found.sd - single.sd).abs() < 1e-9,
                "{row}: {found:?}"
            );
        }
    }

    #[test]
    fn trend_goes_on_outside_the_data() {
        let mut data = line(5);
        data.points *= 0.5;
        let process = fit(data, &Priors::new(1, 1.0)).unwrap();
        let prediction = process.predict(&ndarray::array![1.0].view());
        assert!(prediction.mean > 2.0 && prediction.mean < 3.5, "{prediction:?}");
    }

    #[test]
    fn measured_points_are_known() {
        let process = fit(line(6), &Priors::new(1, 1.0)).unwrap();
        let prediction = process.predict(&ndarray::array![0.4].view());
        assert!((prediction.mean + 0.2).abs() < 0.03 && prediction.sd < 0.05, "{prediction:?}");
    }

    #[test]
    fn left_out_measurement_is_predicted_by_the_others() {
        let process = known();
        let mut data = process.data.clone();
        data.points.remove_index(ndarray::Axis(0), 2);
        data.values.remove(2);
        data.variances.remove(2);
        let without = GaussianProcess::new(data, process.covariance.clone()).unwrap();
        let direct = without.predict(&process.data.points.row(2));
        let quick = process.leave_one_out()[2];
        assert!((direct.mean - quick.mean).abs() < 1e-9);
        assert!((direct.sd.powi(2) + 0.05f64.powi(2) - quick.sd.powi(2)).abs() < 1e-9);
    }

    #[test]
    fn believing_keeps_the_mean_and_takes_the_doubt() {
        let process = known();
        let (there, elsewhere) = (ndarray::array![[0.7, 0.7]], ndarray::array![0.2, 0.5]);
        let believing = process.believing(&there);
        assert!(believing.predict(&there.row(0)).sd < 0.06 && process.predict(&there.row(0)).sd > 0.1);
        let (before, after) = (process.predict(&elsewhere.view()), believing.predict(&elsewhere.view()));
        assert!((before.mean - after.mean).abs() < 1e-9 && after.sd < before.sd);
    }

    #[test]
    fn one_measurement_is_enough_and_none_is_not() {
        let mut data = line(2);
        data.points.remove_index(ndarray::Axis(0), 1);
        data.values.pop();
        data.variances.pop();
        assert!(fit(data.clone(), &Priors::new(1, 1.0)).is_some());
        data.points.remove_index(ndarray::Axis(0), 0);
        data.values.pop();
        assert!(fit(data, &Priors::new(1, 1.0)).is_none());
    }
}
