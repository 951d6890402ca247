//! What to try next: a pure function of the question, the results and a seed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::acquisition::ln_promise;
use crate::belief::{Belief, Problem};
use crate::history::Trial;
use crate::incumbent::{good, incumbent};
use crate::space::Candidate;
use crate::start;

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
    /// It lies one step from the best, and the model expects little of anything.
    #[serde(rename_all = "camelCase")]
    Neighbour { expected_improvement: f64 },
}

impl Reason {
    /// What the model expects at most of any candidate left; `None` in the start design.
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
    if expected_improvement < POLISH_BELOW && best.is_some() {
        let top = top(problem, &belief, trials, bar);
        let near = open().filter(|candidate| top.iter().any(|best| problem.spec.space.is_next_to(*best, *candidate)));
        if let Some((candidate, _)) = most_promising(&belief, bar, near) {
            return Some(Proposal { candidate, reason: Reason::Neighbour { expected_improvement } });
        }
    }
    Some(Proposal { candidate, reason: Reason::Model { expected_improvement } })
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
