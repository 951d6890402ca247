//! When to stop, and why.

use serde::{Deserialize, Serialize};

use crate::belief::Problem;
use crate::history::Trial;
use crate::suggest::suggest;

/// What a search may use. Time and money are the caller's to count: this crate has no clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Trials at most.
    pub max_trials: usize,
    /// Failed trials at most, failures of the machine not counted.
    pub max_failed: Option<usize>,
    /// A round that promises less than this share is poor.
    pub expected_improvement: f64,
    /// So many poor rounds in a row end the search.
    pub rounds: usize,
    /// Seconds at most.
    pub seconds: Option<f64>,
    /// Money at most, in the unit of the costs.
    pub money: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_trials: 20, max_failed: None, expected_improvement: 0.01, rounds: 3, seconds: None, money: None }
    }
}

/// What was used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Seconds.
    pub seconds: f64,
    /// Money.
    pub money: f64,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// Every candidate was tried.
    Exhausted,
    /// As many trials as allowed.
    Trials,
    /// As many failures as allowed.
    Failures,
    /// The time is spent.
    Time,
    /// The money is spent.
    Money,
    /// Little more is to be gained.
    LittleToGain,
    /// The machine failed again and again.
    Machine,
}

/// Whether to stop now. Depends on the order of `trials`, as only a search's own past can.
pub fn stop(problem: &Problem, trials: &[Trial], seed: u64, limits: &Limits, used: Used) -> Option<Stop> {
    let counted = trials.iter().filter(|trial| trial.counts()).count();
    let failed = trials.iter().filter(|trial| trial.works() == Some(false)).count();
    if counted >= limits.max_trials {
        return Some(Stop::Trials);
    }
    if limits.max_failed.is_some_and(|most| failed > most) {
        return Some(Stop::Failures);
    }
    if limits.seconds.is_some_and(|most| used.seconds >= most) {
        return Some(Stop::Time);
    }
    if limits.money.is_some_and(|most| used.money >= most) {
        return Some(Stop::Money);
    }
    little_to_gain(problem, trials, seed, limits)
}

/// The last rounds, each asked again with what was known then.
fn little_to_gain(problem: &Problem, trials: &[Trial], seed: u64, limits: &Limits) -> Option<Stop> {
    for back in 0..limits.rounds.max(1) {
        let known = trials.len().checked_sub(back)?;
        let next = suggest(problem, &trials[..known], seed, 1);
        let Some(proposal) = next.first() else { return (back == 0).then_some(Stop::Exhausted) };
        let expected_improvement = proposal.reason.expected_improvement()?;
        let met = trials[..known].iter().any(|trial| trial.meets(problem.spec));
        if !met || expected_improvement >= limits.expected_improvement {
            return None;
        }
    }
    Some(Stop::LittleToGain)
}
