//! Every trial, and those that measured a candidate again.

use std::collections::BTreeMap;

use modelway_tune::experiment::Purpose;
use modelway_tune::frontier::convergence;
use modelway_tune::history::{Failure, Outcome, Trial};
use modelway_tune::space::Candidate;

use super::Evidence;
use super::question::limit;
use crate::record::Entry;
use crate::report::document::{self, Recheck, TrialOutcome, TrialRow};
use crate::report::quantity::Unit;

pub(super) fn trials(evidence: &Evidence) -> Vec<TrialRow> {
    let all: Vec<Trial> = evidence.entries.iter().map(|entry| entry.attempt.trial()).collect();
    let best = convergence(evidence.spec, &all);
    let row = |((index, entry), best): ((usize, &&Entry), Option<f64>)| row(evidence, index + 1, entry, best);
    evidence.entries.iter().enumerate().zip(best).map(row).collect()
}

fn row(evidence: &Evidence, number: usize, entry: &Entry, best: Option<f64>) -> TrialRow {
    let attempt = &entry.attempt;
    let trial = attempt.trial();
    TrialRow {
        number,
        candidate: attempt.candidate,
        settings: texts(evidence, attempt.candidate),
        purpose: match attempt.purpose {
            Purpose::Search => document::Purpose::Search,
            Purpose::Confirm => document::Purpose::Confirm,
        },
        outcome: outcome(evidence, &trial),
        why: entry.why.map(|why| why.to_string()).unwrap_or_default(),
        reason: reason(evidence, entry, &trial),
        objective: trial.value(evidence.spec).filter(|value| value.is_finite()),
        metrics: metrics(&trial),
        cost_per_hour: evidence.spec.cost.as_ref().map(|_| evidence.spec.cost_of(attempt.candidate)),
        seconds: Some(attempt.seconds).filter(|seconds| *seconds > 0.0),
        best,
        generator_bound: !entry.generator_bound.is_empty(),
        log: entry.log.clone(),
    }
}

fn texts(evidence: &Evidence, candidate: Candidate) -> Vec<String> {
    evidence.spec.space.levels(candidate).into_iter().map(|level| level.text.clone()).collect()
}

fn outcome(evidence: &Evidence, trial: &Trial) -> TrialOutcome {
    match &trial.outcome {
        Outcome::Pending => TrialOutcome::Running,
        Outcome::Failed(Failure::Infrastructure) => TrialOutcome::Void,
        Outcome::Failed(Failure::ObjectiveUnmet) => TrialOutcome::Missed,
        Outcome::Failed(_) => TrialOutcome::Failed,
        Outcome::Measured(_) if trial.value(evidence.spec).is_none() => TrialOutcome::Failed,
        Outcome::Measured(_) if trial.meets(evidence.spec) => TrialOutcome::Met,
        Outcome::Measured(_) => TrialOutcome::Missed,
    }
}

fn metrics(trial: &Trial) -> BTreeMap<String, f64> {
    let Outcome::Measured(values) = &trial.outcome else { return BTreeMap::new() };
    let finite = values.iter().filter(|(_, found)| found.value.is_finite());
    finite.map(|(name, found)| (name.clone(), found.value)).collect()
}

/// What came of it: which constraints it missed, or how it failed.
fn reason(evidence: &Evidence, entry: &Entry, trial: &Trial) -> String {
    let mut parts: Vec<String> = Vec::new();
    match &trial.outcome {
        Outcome::Failed(failure) => parts.push(failure_words(*failure).to_owned()),
        Outcome::Measured(_) => parts.extend(missed(evidence, trial)),
        Outcome::Pending => parts.push("running".to_owned()),
    }
    parts.extend(entry.attempt.missed.iter().map(|missed| {
        let unit = unit(evidence, &missed.metric);
        limit(missed.bound).missed(&missed.metric, &unit, Some(missed.value))
    }));
    // The numbers say the same, with the limit.
    let told = !entry.attempt.missed.is_empty();
    if !told && !entry.message.is_empty() && !parts.contains(&entry.message) {
        parts.push(entry.message.clone());
    }
    if let Some(bound) = entry.generator_bound.first() {
        parts.push(format!("the load generator was the limit: {bound}"));
    }
    parts.join("; ")
}

fn missed(evidence: &Evidence, trial: &Trial) -> Vec<String> {
    let each = evidence.spec.constraints.iter().filter_map(|constraint| {
        let found = trial.measurement(&constraint.metric).map(|found| found.value);
        let holds = found.is_some_and(|value| constraint.bound.holds(value));
        let unit = unit(evidence, &constraint.metric);
        (!holds).then(|| limit(constraint.bound).missed(&constraint.metric, &unit, found))
    });
    each.collect()
}

fn unit(evidence: &Evidence, metric: &str) -> Unit {
    super::question::unit(metric, evidence.record.units.get(metric).map(String::as_str))
}

/// For people.
pub(super) fn failure_words(failure: Failure) -> &'static str {
    match failure {
        Failure::OutOfMemory => "out of memory",
        Failure::Crash => "crashed",
        Failure::Unschedulable => "no node could hold it",
        Failure::StartTimeout => "not ready in time",
        Failure::ObjectiveUnmet => "met its objectives at no rate",
        Failure::Infrastructure => "the machine failed, not the candidate",
    }
}

/// Candidates that were measured again, the recommended one first, then in the order in which that was done.
pub(super) fn rechecks(evidence: &Evidence) -> Vec<Recheck> {
    let recommended = evidence.recommendation().map(|found| found.candidate);
    let mut order: Vec<Candidate> = Vec::new();
    for entry in evidence.confirmations().filter(|entry| !entry.attempt.is_pending()) {
        if !order.contains(&entry.attempt.candidate) {
            order.push(entry.attempt.candidate);
        }
    }
    order.sort_by_key(|candidate| Some(*candidate) != recommended);
    let mut rows: Vec<Recheck> = order.into_iter().map(|candidate| recheck(evidence, candidate)).collect();
    for row in &mut rows {
        row.recommended = Some(row.candidate) == recommended;
    }
    rows
}

fn recheck(evidence: &Evidence, candidate: Candidate) -> Recheck {
    let values = |purpose: Purpose| {
        let trials = evidence.of(candidate).filter(move |entry| entry.attempt.purpose == purpose);
        trials.map(|entry| entry.attempt.trial()).filter(|trial| trial.value(evidence.spec).is_some())
    };
    let search: Vec<f64> = values(Purpose::Search).filter_map(|trial| trial.value(evidence.spec)).collect();
    let again: Vec<Trial> = values(Purpose::Confirm).collect();
    Recheck {
        candidate,
        settings: texts(evidence, candidate),
        search: (!search.is_empty()).then(|| search.iter().sum::<f64>() / search.len() as f64),
        met: again.iter().map(|trial| trial.meets(evidence.spec)).collect(),
        again: again.iter().filter_map(|trial| trial.value(evidence.spec)).collect(),
        failed: evidence
            .of(candidate)
            .filter(|entry| entry.attempt.purpose == Purpose::Confirm && entry.attempt.trial().works() == Some(false))
            .count(),
        recommended: false,
    }
}
