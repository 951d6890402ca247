//! The most probable hyper-parameters, by L-BFGS from a few fixed starts.

use argmin::core::{CostFunction, Error, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
// Its implementations for `Vec` are what the solver computes with.
use argmin_math as _;

use super::likelihood::prior_of_each;
use super::{Covariance, Data, GaussianProcess, Pairs, Priors, likelihood};

/// Steps of one descent. The cost changes by less than a hundredth long before.
const MAX_STEPS: u64 = 40;

/// Starts as factors of the prior's median length-scale: a wrong basin is either "all noise" or "all wiggles".
const STARTS: [f64; 2] = [1.0, 0.25];

/// Levels of noise that are compared, as deviations of its prior.
const LEVELS: [f64; 8] = [-1.5, -0.75, 0.0, 0.75, 1.5, 2.25, 3.0, 3.75];

/// Fits one Gaussian process. `None` without data, or when no covariance can be factorised.
pub fn fit(data: Data, priors: &Priors) -> Option<GaussianProcess> {
    let pairs = Pairs::of(&data.points, &data.groups);
    let found = lowest(&Problem { data: &data, pairs: &pairs, priors, noise: None })?.1;
    GaussianProcess::new(data, Covariance::from_logarithms(&found, priors.constant))
}

/// Fits one process for each of several levels of noise, and weighs them by how well they explain the data; the weights sum to
/// one. A single fit takes its own noise for certain: with few repeats, far too narrow a belief.
pub fn fit_noises(data: &Data, priors: &Priors) -> Vec<(f64, GaussianProcess)> {
    let pairs = Pairs::of(&data.points, &data.groups);
    let at = |level: &f64| {
        let noise = Some(priors.noise.mean + level * priors.noise.sd);
        let (cost, found) = lowest(&Problem { data, pairs: &pairs, priors, noise })?;
        Some((cost, GaussianProcess::new(data.clone(), Covariance::from_logarithms(&found, priors.constant))?))
    };
    let fits: Vec<(f64, GaussianProcess)> = LEVELS.iter().filter_map(at).collect();
    let least = fits.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> = fits.iter().map(|(cost, _)| libm::exp(least - cost)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().zip(fits).map(|(weight, (_, process))| (weight / sum, process)).collect()
}

/// The lowest cost that any start leads to, and where.
fn lowest(problem: &Problem) -> Option<(f64, Vec<f64>)> {
    if problem.data.values.is_empty() {
        return None;
    }
    let found = STARTS.iter().filter_map(|factor| descend(problem, *factor));
    found.reduce(|best, next| if next.0 < best.0 - 1e-9 { next } else { best })
}

fn start(problem: &Problem, factor: f64) -> Vec<f64> {
    let count = problem.pairs.squared.len() + 4;
    let mut logarithms: Vec<f64> = prior_of_each(problem.priors, count).map(|prior| prior.mean).collect();
    logarithms[..count - 4].iter_mut().for_each(|length| *length += libm::log(factor));
    if let Some(noise) = problem.noise {
        logarithms[count - 1] = noise;
    }
    logarithms
}

/// Cost and place of the lowest point found, never above the start.
fn descend(problem: &Problem, factor: f64) -> Option<(f64, Vec<f64>)> {
    let start = start(problem, factor);
    let (cost, gradient) = problem.known(&start)?;
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), 7).with_tolerance_grad(1e-3).ok()?;
    let solver = solver.with_tolerance_cost(1e-5).ok()?;
    let found = Executor::new(problem.clone(), solver)
        .configure(|state| state.param(start.clone()).cost(cost).gradient(gradient).max_iters(MAX_STEPS))
        .timer(false)
        .run();
    let better = found.ok().and_then(|found| {
        let state = found.state();
        state.get_best_param().cloned().map(|place| (state.get_best_cost(), place))
    });
    let better = better.filter(|(lower, place)| *lower < cost && place.iter().all(|value| value.is_finite()));
    Some(better.unwrap_or((cost, start)))
}

#[derive(Clone)]
struct Problem<'a> {
    data: &'a Data,
    pairs: &'a Pairs,
    priors: &'a Priors,
    /// Logarithm of the noise where it is given, not fitted.
    noise: Option<f64>,
}

impl Problem<'_> {
    fn known(&self, place: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (cost, mut gradient) = likelihood(self.data, self.pairs, self.priors, place)?;
        // What has no slope stays where it starts.
        if let (Some(_), Some(slope)) = (self.noise, gradient.last_mut()) {
            *slope = 0.0;
        }
        Some((cost, gradient))
    }

    fn evaluate(&self, place: &[f64]) -> (f64, Vec<f64>) {
        // A wall where the covariance has no factor: the line search steps back.
        self.known(place).unwrap_or_else(|| (1e10, vec![0.0; place.len()]))
    }
}

impl CostFunction for Problem<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, place: &Self::Param) -> Result<f64, Error> {
        Ok(self.evaluate(place).0)
    }
}

impl Gradient for Problem<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, place: &Self::Param) -> Result<Vec<f64>, Error> {
        Ok(self.evaluate(place).1)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    /// Pairs of measurements at the same points, this far apart.
    fn pairs(apart: f64) -> Data {
        let points = Array2::from_shape_fn((8, 1), |(row, _)| f64::from(u8::try_from(row / 2).unwrap()) / 3.0);
        let sides = [1.0, -1.0].iter().cycle();
        let values = points.column(0).iter().zip(sides).map(|(x, side)| x - 0.5 + side * 0.5 * apart).collect();
        Data { points, groups: vec![0], values, variances: vec![0.0; 8] }
    }

    #[test]
    fn levels_of_noise_are_weighed_by_what_repeats_show() {
        let priors = Priors::new(1, 1.0);
        let expected = |apart| {
            let fits = fit_noises(&pairs(apart), &priors);
            let sum: f64 = fits.iter().map(|(weight, _)| weight).sum();
            assert!(fits.len() == LEVELS.len() && (sum - 1.0).abs() < 1e-9, "{sum}");
            let noises: Vec<f64> = fits.iter().map(|(_, process)| process.covariance().noise).collect();
            for (level, noise) in LEVELS.iter().zip(&noises) {
                let given = libm::exp(priors.noise.mean + level * priors.noise.sd);
                assert!((noise / given - 1.0).abs() < 1e-9, "what is given is not fitted: {noise}, {given}");
            }
            fits.iter().zip(noises).map(|((weight, _), noise)| weight * noise).sum::<f64>()
        };
        // Two values `apart` from each other have a deviation of `apart / sqrt(2)`.
        let (little, much) = (expected(0.01), expected(0.3));
        assert!(little < 0.02 && (0.12..0.4).contains(&much), "{little} and {much}");
    }
}
