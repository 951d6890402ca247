//! What to try next: a pure function of the question, the results and a seed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::acquisition::ln_promise;
use crate::belief::{Belief, Problem};
use crate::history::Trial;
use crate::incumbent::{good, incumbent};
use crate::space::Candidate;
use crate::start;
use crate::steps;

/// A step from the best that nothing is known of is taken when it promises at least this share of what the model promises
/// elsewhere: the model is least right about what it promises most.
const STEP_SHARE: f64 = 0.25;

/// When the model promises less than this share, what lies next to the best is looked at first: a smooth model sees no
/// gain on the flat tops that saturated services have, and the last few per cent are one step away.
const POLISH_BELOW: f64 = 0.02;

/// Scores this close to the best count as the best, too.
const TIE: f64 = 0.02;

/// A candidate to try, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// What to try.
    pub candidate: Candidate,
    /// Why.
    pub reason: Reason,
}

/// Why a candidate is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// Part of the start design.
    Start,
    /// The model expects the most of it: the improvement expected, as a share of the incumbent where scores are
    /// logarithms, times the probability that it meets every constraint.
    #[serde(rename_all = "camelCase")]
    Model { expected_improvement: f64 },
    /// It lies one step from the best: one that nothing is known of, or the model expects little of anything.
    #[serde(rename_all = "camelCase")]
    Neighbour { expected_improvement: f64 },
}

impl Reason {
    /// What is expected at most of any candidate left; `None` in the start design.
    pub fn expected_improvement(self) -> Option<f64> {
        match self {
            Self::Start => None,
            Self::Model { expected_improvement } | Self::Neighbour { expected_improvement } => {
                Some(expected_improvement)
            }
        }
    }
}

/// The next `count` candidates, fewer when fewer are left. Same arguments, same answer.
pub fn suggest(problem: &Problem, trials: &[Trial], seed: u64, count: usize) -> Vec<Proposal> {
    let mut trials = trials.to_vec();
    let mut proposals = Vec::new();
    for _ in 0..count {
        let Some(proposal) = next(problem, &trials, seed) else { break };
        trials.push(Trial::pending(proposal.candidate));
        proposals.push(proposal);
    }
    proposals
}

fn next(problem: &Problem, trials: &[Trial], seed: u64) -> Option<Proposal> {
    let taken: BTreeSet<Candidate> =
        trials.iter().filter(|trial| trial.counts()).map(|trial| trial.candidate).collect();
    if let Some(candidate) = start::next(problem.spec, &problem.encoding, &taken, seed) {
        return Some(Proposal { candidate, reason: Reason::Start });
    }
    let belief = problem.believe(trials);
    let best = incumbent(problem, &belief, trials);
    let bar = best.map_or_else(|| lowest(&belief), |candidate| belief.score[candidate].mean);
    let open = || (0..problem.spec.space.len()).filter(|candidate| !taken.contains(candidate));
    let (candidate, promise) = most_promising(&belief, bar, open())?;
    let expected_improvement = libm::exp(promise);
    let near = best.and_then(|_| near(problem, &belief, trials, &taken, bar, expected_improvement));
    Some(near.unwrap_or(Proposal { candidate, reason: Reason::Model { expected_improvement } }))
}

/// What lies one step from the best, where that is worth a trial before what the model expects the most of.
fn near(
    problem: &Problem,
    belief: &Belief,
    trials: &[Trial],
    taken: &BTreeSet<Candidate>,
    bar: f64,
    expected_improvement: f64,
) -> Option<Proposal> {
    let poor = expected_improvement < POLISH_BELOW;
    let top = top(problem, belief, trials, bar);
    if let Some((candidate, promise)) = steps::most_promising(&problem.spec.space, belief, taken, &top, bar)
        && promise > 0.0
        && (poor || promise > STEP_SHARE * expected_improvement)
    {
        let expected_improvement = expected_improvement.max(promise);
        return Some(Proposal { candidate, reason: Reason::Neighbour { expected_improvement } });
    }
    if !poor {
        return None;
    }
    let space = &problem.spec.space;
    let beside = |candidate: &Candidate| {
        !taken.contains(candidate) && top.iter().any(|best| space.is_next_to(*best, *candidate))
    };
    let (candidate, _) = most_promising(belief, bar, (0..space.len()).filter(beside))?;
    Some(Proposal { candidate, reason: Reason::Neighbour { expected_improvement } })
}

/// The candidate with the highest promise, the first of equals, and `ln` of that promise.
fn most_promising(belief: &Belief, bar: f64, open: impl Iterator<Item = Candidate>) -> Option<(Candidate, f64)> {
    open.map(|candidate| (candidate, ln_promise(belief, candidate, bar)))
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
}

/// Good candidates that are as good as the best.
fn top(problem: &Problem, belief: &Belief, trials: &[Trial], bar: f64) -> Vec<Candidate> {
    let mut top = good(problem, belief, trials);
    top.retain(|candidate| belief.score[*candidate].mean >= bar - TIE);
    top
}

/// Before anything met the constraints every candidate would be an improvement: over the worst there is.
fn lowest(belief: &Belief) -> f64 {
    belief.score.iter().map(|belief| belief.mean).fold(f64::INFINITY, f64::min)
}
