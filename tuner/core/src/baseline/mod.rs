//! Simpler searches, so that every claim about ours has a rival. They see the same trials and seeds.

mod forest;
mod grid;
mod tpe;

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::belief::Problem;
use crate::history::Trial;
use crate::space::{Candidate, level_at, sobol};
use crate::spec::Goal;

/// Which rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Baseline {
    /// Any candidate that was not tried.
    Random,
    /// The candidates in their order, the last parameter fastest.
    Grid,
    /// Scrambled Sobol points, each moved to the nearest candidate that was not tried.
    Sobol,
    /// Tree-structured Parzen estimator.
    Tpe,
    /// Expected improvement over a random forest.
    Forest,
}

/// The next candidate; `None` when all were tried.
pub fn next(baseline: Baseline, problem: &Problem, trials: &[Trial], seed: u64) -> Option<Candidate> {
    let open = open(problem, trials);
    if open.is_empty() {
        return None;
    }
    if let Some(first) = problem.spec.baseline.filter(|first| trials.is_empty() && open.contains(first)) {
        return Some(first);
    }
    // One generator a round: what comes next does not depend on how the past was computed.
    let mut generator =
        ChaCha8Rng::seed_from_u64(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(trials.len() as u64));
    match baseline {
        Baseline::Random => open.choose(&mut generator).copied(),
        Baseline::Grid => grid::next(&open),
        Baseline::Sobol => nearest_to_sobol(problem, &open, trials.len(), seed),
        Baseline::Tpe => tpe::next(problem, trials, &open, &mut generator),
        Baseline::Forest => forest::next(problem, trials, &open, &mut generator),
    }
}

/// Candidates that were neither tried nor are running.
fn open(problem: &Problem, trials: &[Trial]) -> Vec<Candidate> {
    let taken: std::collections::BTreeSet<Candidate> =
        trials.iter().filter(|trial| trial.counts()).map(|trial| trial.candidate).collect();
    (0..problem.spec.space.len()).filter(|candidate| !taken.contains(candidate)).collect()
}

fn nearest_to_sobol(problem: &Problem, open: &[Candidate], index: usize, seed: u64) -> Option<Candidate> {
    let space = &problem.spec.space;
    let index = u32::try_from(index).unwrap_or(0) % (1 << 16);
    let levels: Vec<usize> = (0u32..)
        .zip(space.parameters())
        .map(|(dimension, parameter)| level_at(sobol(index, dimension, seed), parameter.levels.len()))
        .collect();
    let point = problem.encoding.point(&levels);
    let distance = |candidate: Candidate| -> f64 {
        let row = problem.encoding.points().row(candidate);
        row.iter().zip(&point).map(|(left, right)| (left - right) * (left - right)).sum()
    };
    open.iter().copied().reduce(|best, next| if distance(next) < distance(best) { next } else { best })
}

/// Trials from best to worst: those that meet every constraint by value, then those that ran by how far they miss, then
/// those that failed.
fn ranked(problem: &Problem, trials: &[Trial]) -> Vec<Candidate> {
    let mut keyed: Vec<(u8, f64, Candidate)> = trials.iter().filter_map(|trial| key(problem, trial)).collect();
    keyed.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)).then(left.2.cmp(&right.2)));
    keyed.into_iter().map(|(.., candidate)| candidate).collect()
}

fn key(problem: &Problem, trial: &Trial) -> Option<(u8, f64, Candidate)> {
    let spec = problem.spec;
    let works = trial.works()?;
    let value = trial.value(spec).map(|value| if spec.goal() == Goal::Maximize { -value } else { value });
    Some(match value {
        Some(value) if trial.meets(spec) => (0, value, trial.candidate),
        _ if works => (1, violation(problem, trial), trial.candidate),
        _ => (2, 0.0, trial.candidate),
    })
}

/// Sum over the constraints of how far each is missed, on its even scale.
fn violation(problem: &Problem, trial: &Trial) -> f64 {
    let each = problem.spec.constraints.iter().map(|constraint| {
        let Some(found) = trial.measurement(&constraint.metric) else { return 10.0 };
        let distance =
            constraint.transform.forward(found.value) - constraint.transform.forward(constraint.bound.limit());
        match constraint.bound {
            crate::spec::Bound::AtMost(_) => distance.max(0.0),
            crate::spec::Bound::AtLeast(_) => (-distance).max(0.0),
        }
    });
    each.sum()
}
