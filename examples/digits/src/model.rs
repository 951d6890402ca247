//! The two classifiers, both a chain of dense layers.

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal};

use crate::TrainError;
use crate::data::{CLASSES, Images, PIXELS};

/// Which classifier to train.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Variant {
    /// Nearest class mean, about 90 % right.
    Centroid,
    /// Two hidden layers of 3,072 random features, ridge-regressed output, at least 98 % right, 39 MB.
    Wide,
}

/// Width of both hidden layers.
const WIDTH: usize = 3_072;
/// Ridge relative to the mean diagonal of the kernel matrix; chosen on the training half by leave-one-out.
const RELATIVE_RIDGE: f32 = 1e-4;
const SEED: u64 = 1_797;

/// `scores = x W + b`, followed by a rectifier unless it is the last layer.
#[derive(Clone, Debug)]
pub struct Dense {
    /// `(inputs, outputs)`.
    pub weights: Array2<f32>,
    /// `(outputs)`.
    pub bias: Array1<f32>,
}

/// Dense layers with rectifiers between them; the largest of ten scores wins.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// First to last.
    pub layers: Vec<Dense>,
}

impl Classifier {
    /// Trains on `training`.
    pub fn fit(variant: Variant, training: &Images) -> Result<Self, TrainError> {
        match variant {
            Variant::Centroid => Ok(Self { layers: vec![nearest_centroid(training)] }),
            Variant::Wide => wide(training),
        }
    }

    /// `(n, 10)` scores for `(n, 64)` images.
    pub fn scores(&self, images: &ArrayView2<'_, f32>) -> Array2<f32> {
        let mut values = images.to_owned();
        for (index, layer) in self.layers.iter().enumerate() {
            values = layer.apply(&values);
            if index + 1 < self.layers.len() {
                rectify(&mut values);
            }
        }
        values
    }

    /// Share of `images` whose largest score is at the true digit.
    pub fn accuracy(&self, images: &Images) -> f64 {
        let scores = self.scores(&images.images.view());
        let right =
            scores.outer_iter().zip(&images.digits).filter(|(row, digit)| largest(row.iter()) == **digit).count();
        right as f64 / images.len().max(1) as f64
    }

    /// Number of weights and biases.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights.len() + layer.bias.len()).sum()
    }
}

impl Dense {
    fn apply(&self, inputs: &Array2<f32>) -> Array2<f32> {
        inputs.dot(&self.weights) + &self.bias
    }

    /// Random features, He-scaled so that activations keep their size (He et al. 2015, arXiv:1502.01852).
    fn random(inputs: usize, outputs: usize, rng: &mut ChaCha8Rng) -> Self {
        let scale = (2.0 / inputs as f32).sqrt();
        let normal = Normal::new(0.0, scale).expect("a finite positive deviation");
        let weights = Array2::from_shape_simple_fn((inputs, outputs), || normal.sample(rng));
        let bias = Array1::from_shape_simple_fn(outputs, || normal.sample(rng));
        Self { weights, bias }
    }
}

fn rectify(values: &mut Array2<f32>) {
    values.mapv_inplace(|value| value.max(0.0));
}

fn largest<'a>(scores: impl Iterator<Item = &'a f32>) -> usize {
    scores.enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(index, _)| index)
}

/// The nearest mean `c` maximises `2 x.c - |c|^2`: one dense layer.
fn nearest_centroid(training: &Images) -> Dense {
    let mut weights = Array2::zeros((PIXELS, CLASSES));
    let mut bias = Array1::zeros(CLASSES);
    for class in 0..CLASSES {
        let rows: Vec<usize> = (0..training.len()).filter(|row| training.digits[*row] == class).collect();
        let Some(mean) = training.images.select(Axis(0), &rows).mean_axis(Axis(0)) else { continue };
        bias[class] = -mean.dot(&mean);
        weights.column_mut(class).assign(&(mean * 2.0));
    }
    Dense { weights, bias }
}

fn wide(training: &Images) -> Result<Classifier, TrainError> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    // Pixels are centred so that the random features point in all directions; the shift is folded into the bias.
    let mean = training.images.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(PIXELS));
    let mut first = Dense::random(PIXELS, WIDTH, &mut rng);
    first.bias = &first.bias - &mean.dot(&first.weights);
    let second = Dense::random(WIDTH, WIDTH, &mut rng);
    let mut hidden = first.apply(&training.images);
    rectify(&mut hidden);
    let mut features = second.apply(&hidden);
    rectify(&mut features);
    let output = ridge(&features, training)?;
    Ok(Classifier { layers: vec![first, second, output] })
}

/// Ridge regression on one-hot targets in its dual form: there are fewer images than features.
fn ridge(features: &Array2<f32>, training: &Images) -> Result<Dense, TrainError> {
    let mut targets = Array2::<f32>::zeros((training.len(), CLASSES));
    for (row, digit) in training.digits.iter().enumerate() {
        targets[[row, *digit]] = 1.0;
    }
    let bias = targets.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(CLASSES));
    let mut kernel = features.dot(&features.t());
    let ridge = RELATIVE_RIDGE * kernel.diag().mean().unwrap_or(1.0);
    kernel.diag_mut().mapv_inplace(|value| value + ridge);
    let dual = solve_positive_definite(&kernel, &(targets - &bias))?;
    Ok(Dense { weights: features.t().dot(&dual), bias })
}

/// Solves `A X = B` by a Cholesky factorisation `A = L L^T` in double precision; `a` is `(n, n)`, `b` is `(n, k)`.
fn solve_positive_definite(a: &Array2<f32>, b: &Array2<f32>) -> Result<Array2<f32>, TrainError> {
    let size = a.nrows();
    let mut lower = a.mapv(f64::from);
    for column in 0..size {
        for row in column..size {
            let dot = lower.slice(ndarray::s![row, ..column]).dot(&lower.slice(ndarray::s![column, ..column]));
            let value = lower[[row, column]] - dot;
            if row == column {
                if value <= 0.0 {
                    return Err(TrainError::Singular { pivot: column, size });
                }
                lower[[row, column]] = value.sqrt();
            } else {
                lower[[row, column]] = value / lower[[column, column]];
            }
        }
    }
    let mut x = b.mapv(f64::from);
    for row in 0..size {
        let (done, mut rest) = x.view_mut().split_at(Axis(0), row);
        let update = lower.slice(ndarray::s![row, ..row]).dot(&done);
        let mut current = rest.row_mut(0);
        current -= &update;
        current /= lower[[row, row]];
    }
    for row in (0..size).rev() {
        let (mut head, done) = x.view_mut().split_at(Axis(0), row + 1);
        let update = lower.slice(ndarray::s![row + 1.., row]).dot(&done);
        let mut current = head.row_mut(row);
        current -= &update;
        current /= lower[[row, row]];
    }
    #[expect(clippy::cast_possible_truncation, reason = "weights are single precision")]
    Ok(x.mapv(|value| value as f32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solver_gives_back_a_known_solution() {
        let a = ndarray::array![[4.0_f32, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]];
        let x = ndarray::array![[1.0_f32, -1.0], [2.0, 0.0], [3.0, 5.0]];
        let solved = solve_positive_definite(&a, &a.dot(&x)).unwrap();
        assert!((solved - x).iter().all(|error| error.abs() < 1e-5));
    }

    #[test]
    fn solver_refuses_an_indefinite_matrix() {
        let a = ndarray::array![[1.0_f32, 2.0], [2.0, 1.0]];
        let b = Array2::zeros((2, 1));
        assert!(matches!(solve_positive_definite(&a, &b), Err(TrainError::Singular { pivot: 1, size: 2 })));
    }
}
