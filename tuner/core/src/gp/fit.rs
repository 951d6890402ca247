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

/// Fits one Gaussian process. `None` without data, or when no covariance can be factorised.
pub fn fit(data: Data, priors: &Priors) -> Option<GaussianProcess> {
    if data.values.is_empty() {
        return None;
    }
    let pairs = Pairs::of(&data.points, &data.groups);
    let problem = Problem { data: &data, pairs: &pairs, priors };
    let best = STARTS
        .iter()
        .filter_map(|factor| descend(&problem, *factor))
        .reduce(|best, next| if next.0 < best.0 - 1e-9 { next } else { best })?;
    let covariance = Covariance::from_logarithms(&best.1, priors.constant);
    GaussianProcess::new(data, covariance)
}

fn start(problem: &Problem, factor: f64) -> Vec<f64> {
    let count = problem.pairs.squared.len() + 4;
    let mut logarithms: Vec<f64> = prior_of_each(problem.priors, count).map(|prior| prior.mean).collect();
    logarithms[..count - 4].iter_mut().for_each(|length| *length += libm::log(factor));
    logarithms
}

/// Cost and place of the lowest point found, never above the start.
fn descend(problem: &Problem, factor: f64) -> Option<(f64, Vec<f64>)> {
    let start = start(problem, factor);
    let (cost, gradient) = likelihood(problem.data, problem.pairs, problem.priors, &start)?;
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
}

impl Problem<'_> {
    fn evaluate(&self, place: &[f64]) -> (f64, Vec<f64>) {
        // A wall where the covariance has no factor: the line search steps back.
        likelihood(self.data, self.pairs, self.priors, place).unwrap_or_else(|| (1e10, vec![0.0; place.len()]))
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
