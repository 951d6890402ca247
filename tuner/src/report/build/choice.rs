//! What is known of one candidate.

use std::collections::BTreeMap;

use modelway_tune::incumbent::good;
use modelway_tune::recommend::{self, value};
use modelway_tune::space::Candidate;

use super::Evidence;
use crate::report::document::{Choice, Interval, Question};

pub(super) fn choice(evidence: &Evidence, question: &Question, candidate: Candidate) -> Choice {
    let settings = evidence.spec.space.levels(candidate).into_iter().map(|level| level.text.clone()).collect();
    let measured = means(evidence, candidate);
    let cost_per_hour = evidence.spec.cost.as_ref().map(|_| evidence.spec.cost_of(candidate));
    let belief = evidence.belief.as_ref().filter(|_| !measured.is_empty());
    Choice {
        candidate,
        settings,
        objective: belief.map(|belief| interval(value(evidence.problem, belief, &evidence.by_noise, candidate))),
        cost_per_million: cost_per_hour.and_then(|cost| per_million(question, &measured, cost)),
        meets: belief.is_some_and(|belief| good(evidence.problem, belief, &evidence.trials).contains(&candidate)),
        cost_per_hour,
        measured,
    }
}

pub(super) fn interval(found: recommend::Interval) -> Interval {
    // JSON knows no infinity.
    let finite = |value: f64| if value.is_nan() { 0.0 } else { value.clamp(f64::MIN, f64::MAX) };
    Interval { estimate: finite(found.estimate), low: finite(found.low), high: finite(found.high) }
}

/// Mean of each metric over the candidate's trials.
pub(super) fn means(evidence: &Evidence, candidate: Candidate) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for trial in evidence.trials.iter().filter(|trial| trial.candidate == candidate) {
        let modelway_tune::history::Outcome::Measured(values) = &trial.outcome else { continue };
        for (name, found) in values.iter().filter(|(_, found)| found.value.is_finite()) {
            let sum = sums.entry(name.clone()).or_default();
            *sum = (sum.0 + found.value, sum.1 + 1.0);
        }
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

/// An hour's cost over the millions that an hour serves at the measured rate.
fn per_million(question: &Question, measured: &BTreeMap<String, f64>, cost: f64) -> Option<f64> {
    let rate = measured.get(question.rate()?).copied().filter(|rate| *rate > 0.0)?;
    Some(cost / (rate * 3600.0) * 1e6)
}
