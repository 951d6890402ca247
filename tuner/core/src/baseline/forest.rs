//! Expected improvement over a random forest, as SMAC does it: ranks of all trials as the target, so that failures and
//! broken constraints are simply the worst.
//!
//! Hutter, Hoos, Leyton-Brown, "Sequential Model-Based Optimization for General Algorithm Configuration", 2011.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::ranked;
use crate::acquisition::ln_expected_improvement;
use crate::belief::Problem;
use crate::gp::Prediction;
use crate::history::Trial;
use crate::math::normal;
use crate::space::Candidate;

/// Random trials first.
const START: usize = 5;

/// Trees.
const TREES: usize = 30;

/// A node with fewer trials is a leaf.
const SPLIT_AT: usize = 3;

pub(super) fn next(
    problem: &Problem,
    trials: &[Trial],
    open: &[Candidate],
    generator: &mut ChaCha8Rng,
) -> Option<Candidate> {
    let ranked = ranked(problem, trials);
    if ranked.len() < START {
        return open.choose(generator).copied();
    }
    let count = ranked.len() as f64;
    // Normal scores of the ranks: the best is highest.
    let data: Vec<(Candidate, f64)> = ranked
        .iter()
        .enumerate()
        .map(|(rank, candidate)| (*candidate, -quantile((rank as f64 + 0.5) / count)))
        .collect();
    let forest: Vec<Node> = (0..TREES).map(|_| tree(problem, &sample(&data, generator), generator)).collect();
    let best = data.first().map_or(0.0, |(_, value)| *value);
    let promise = |candidate: Candidate| ln_expected_improvement(predict(problem, &forest, candidate), best);
    let scored = open.iter().map(|candidate| (promise(*candidate), *candidate));
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, candidate)| candidate)
}

enum Node {
    Leaf(f64),
    Split { column: usize, at: f64, below: Box<Node>, above: Box<Node> },
}

fn sample(data: &[(Candidate, f64)], generator: &mut ChaCha8Rng) -> Vec<(Candidate, f64)> {
    (0..data.len()).filter_map(|_| data.choose(generator).copied()).collect()
}

fn mean(data: &[(Candidate, f64)]) -> f64 {
    data.iter().map(|(_, value)| value).sum::<f64>() / data.len().max(1) as f64
}

fn tree(problem: &Problem, data: &[(Candidate, f64)], generator: &mut ChaCha8Rng) -> Node {
    let points = problem.encoding.points();
    if data.len() < SPLIT_AT {
        return Node::Leaf(mean(data));
    }
    let mut best: Option<(f64, usize, f64)> = None;
    for column in 0..points.ncols() {
        // Five sixths of the columns, as in SMAC.
        if generator.random_range(0..6) == 0 {
            continue;
        }
        let mut values: Vec<f64> = data.iter().map(|(candidate, _)| points[[*candidate, column]]).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        for pair in values.windows(2) {
            let at = pair[0] + (pair[1] - pair[0]) * generator.random_range(0.25..0.75);
            let gain = gain(problem, data, column, at);
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, column, at));
            }
        }
    }
    let Some((_, column, at)) = best else { return Node::Leaf(mean(data)) };
    let (below, above): (Vec<_>, Vec<_>) = data.iter().partition(|(candidate, _)| points[[*candidate, column]] < at);
    let below = Box::new(tree(problem, &below, generator));
    Node::Split { column, at, below, above: Box::new(tree(problem, &above, generator)) }
}

/// Sum of squares between the two sides.
fn gain(problem: &Problem, data: &[(Candidate, f64)], column: usize, at: f64) -> f64 {
    let points = problem.encoding.points();
    let (mut below, mut above) = ((0.0, 0.0), (0.0, 0.0));
    for (candidate, value) in data {
        let side = if points[[*candidate, column]] < at { &mut below } else { &mut above };
        side.0 += value;
        side.1 += 1.0;
    }
    let square = |(sum, count): (f64, f64)| if count > 0.0 { sum * sum / count } else { 0.0 };
    square(below) + square(above)
}

fn predict(problem: &Problem, forest: &[Node], candidate: Candidate) -> Prediction {
    let points = problem.encoding.points();
    let answer = |tree: &Node| {
        let mut node = tree;
        loop {
            match node {
                Node::Leaf(value) => return *value,
                Node::Split { column, at, below, above } => {
                    node = if points[[candidate, *column]] < *at { below } else { above };
                }
            }
        }
    };
    let answers: Vec<f64> = forest.iter().map(answer).collect();
    let mean = answers.iter().sum::<f64>() / answers.len() as f64;
    let variance = answers.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / answers.len() as f64;
    Prediction { mean, sd: variance.sqrt().max(1e-3) }
}

/// Inverse of the normal distribution function, by bisection: exact enough, and seldom called.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if normal::cdf(middle) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_known_ones() {
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-9);
        assert!(quantile(0.5).abs() < 1e-9);
    }
}
