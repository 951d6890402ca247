//! Cholesky factor of a covariance, and what is solved with it.
//!
//! Loops in a fixed order and no vendor kernels: the same numbers on every machine.

use ndarray::Array2;

/// The lower factor `L` with `L L^T = A + jitter I`.
#[derive(Clone, Debug)]
pub struct Cholesky {
    lower: Array2<f64>,
}

/// Added to the diagonal, relative to its mean, until the matrix is positive definite.
const JITTERS: [f64; 6] = [0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2];

impl Cholesky {
    /// Factorises a symmetric matrix; grows the jitter while it is not positive definite. `None` when it never is, or
    /// is not finite.
    pub fn new(matrix: &Array2<f64>) -> Option<Self> {
        let size = matrix.nrows();
        let mean = matrix.diag().sum() / size.max(1) as f64;
        JITTERS.iter().find_map(|jitter| factor(matrix, jitter * mean)).map(|lower| Self { lower })
    }

    /// Solves `L x = b` in place.
    pub fn forward(&self, b: &mut [f64]) {
        for row in 0..b.len() {
            let line = &self.row(row)[..row];
            let sum: f64 = line.iter().zip(&b[..row]).map(|(left, right)| left * right).sum();
            b[row] = (b[row] - sum) / self.lower[[row, row]];
        }
    }

    /// Solves `L^T x = b` in place.
    pub fn backward(&self, b: &mut [f64]) {
        for row in (0..b.len()).rev() {
            b[row] /= self.lower[[row, row]];
            let value = b[row];
            let line = &self.row(row)[..row];
            line.iter().zip(&mut b[..row]).for_each(|(factor, entry)| *entry -= factor * value);
        }
    }

    /// Solves `A x = b`.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        self.forward(&mut x);
        self.backward(&mut x);
        x
    }

    /// `A^-1`.
    pub fn inverse(&self) -> Array2<f64> {
        let size = self.lower.nrows();
        let mut inverse = Array2::zeros((size, size));
        for column in 0..size {
            let mut unit = vec![0.0; size];
            unit[column] = 1.0;
            self.forward_from(column, &mut unit);
            self.backward(&mut unit);
            unit.iter().enumerate().for_each(|(row, value)| inverse[[column, row]] = *value);
        }
        inverse
    }

    /// `ln det A`.
    pub fn ln_determinant(&self) -> f64 {
        2.0 * self.lower.diag().iter().map(|value| libm::log(*value)).sum::<f64>()
    }

    /// Forward substitution that skips leading zeros of `b`.
    fn forward_from(&self, start: usize, b: &mut [f64]) {
        for row in start..b.len() {
            let line = &self.row(row)[start..row];
            let sum: f64 = line.iter().zip(&b[start..row]).map(|(left, right)| left * right).sum();
            b[row] = (b[row] - sum) / self.lower[[row, row]];
        }
    }

    fn row(&self, row: usize) -> &[f64] {
        let size = self.lower.ncols();
        let all = self.lower.as_slice().expect("made here in standard layout");
        &all[row * size..(row + 1) * size]
    }
}

fn factor(matrix: &Array2<f64>, jitter: f64) -> Option<Array2<f64>> {
    let size = matrix.nrows();
    let mut lower = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let (left, right) =
                (&lower[row * size..row * size + column], &lower[column * size..column * size + column]);
            let sum: f64 = left.iter().zip(right).map(|(left, right)| left * right).sum();
            let value = matrix[[row, column]] - sum;
            lower[row * size + column] = if row == column {
                let pivot = value + jitter;
                // A pivot that rounding could have made is none.
                if pivot.is_nan() || pivot <= 1e-14 * matrix[[row, row]] {
                    return None;
                }
                pivot.sqrt()
            } else {
                value / lower[column * size + column]
            };
        }
    }
    Array2::from_shape_vec((size, size), lower).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_of_a_known_matrix() {
        // [[4,12,-16],[12,37,-43],[-16,-43,98]] = L L^T with L = [[2,0,0],[6,1,0],[-8,5,3]], determinant 36.
        let matrix = ndarray::array![[4.0, 12.0, -16.0], [12.0, 37.0, -43.0], [-16.0, -43.0, 98.0]];
        let cholesky = Cholesky::new(&matrix).unwrap();
        assert!((cholesky.ln_determinant() - 36.0f64.ln()).abs() < 1e-12);
        let x = cholesky.solve(&[4.0 - 16.0, 12.0 - 43.0, -16.0 + 98.0]);
        assert!(x.iter().zip([1.0, 0.0, 1.0]).all(|(found, expected)| (found - expected).abs() < 1e-9), "{x:?}");
        let product = matrix.dot(&cholesky.inverse());
        assert!(
            product
                .indexed_iter()
                .all(|((row, column), value)| (value - f64::from(u8::from(row == column))).abs() < 1e-9)
        );
    }

    #[test]
    fn singular_matrix_gets_jitter() {
        assert!(Cholesky::new(&Array2::ones((3, 3))).is_some());
    }

    #[test]
    fn no_factor_of_what_is_not_finite() {
        assert!(Cholesky::new(&Array2::from_elem((2, 2), f64::NAN)).is_none());
        assert!(Cholesky::new(&ndarray::array![[-1.0]]).is_none());
    }
}
