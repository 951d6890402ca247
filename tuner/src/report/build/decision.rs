//! What to do, and what that rests on.

use std::collections::BTreeMap;

use modelway_tune::experiment::{Purpose, Verdict as Found};
use modelway_tune::history::Failure;
use modelway_tune::recommend::{Recommendation, Shortfall};

use super::choice::{choice, interval};
use super::rows::failure_words;
use super::{Evidence, change, headline, promise};
use crate::report::document::{Choice, Decision, Interval, Question, Verdict};

pub(super) fn decision(evidence: &Evidence, question: &mut Question) -> Decision {
    let baseline = evidence.spec.baseline.map(|candidate| choice(evidence, question, candidate));
    match &evidence.verdict {
        Found::Recommended(found) => recommended(evidence, question, found, baseline),
        Found::NothingMeets { shortfalls } => Decision {
            verdict: Verdict::Infeasible,
            headline: nothing_meets(question, shortfalls),
            reason: nothing_meets_reason(evidence, shortfalls),
            constraints: promise::of_shortfalls(evidence, shortfalls),
            baseline,
            ..Decision::default()
        },
        Found::NotMeasured { metric } => Decision {
            verdict: Verdict::Failed,
            headline: format!("Change nothing: no trial measured {metric}"),
            reason: "The load ran, but what it reports lacks this metric. Check the metric's name, or what the client \
                     reports."
                .to_owned(),
            baseline,
            ..Decision::default()
        },
        Found::NothingRan { failures } => nothing_ran(evidence, failures, baseline),
        Found::NothingTried => Decision {
            verdict: Verdict::Nothing,
            headline: "No trial has ended yet".to_owned(),
            reason: format!("{} candidates wait.", question.candidates),
            baseline,
            ..Decision::default()
        },
    }
}

fn recommended(
    evidence: &Evidence,
    question: &mut Question,
    found: &Recommendation,
    baseline: Option<Choice>,
) -> Decision {
    let gain = found.gain.map(interval).filter(|gain| gain.estimate.is_finite() && gain.estimate > 0.0);
    let constraints = promise::of_recommendation(evidence, question, found);
    let chosen = choice(evidence, question, found.candidate);
    let verdict = verdict(evidence, found, gain);
    let changes = change::changes(evidence, found.candidate);
    let keep = verdict == Verdict::Keep;
    Decision {
        verdict,
        headline: line(question, verdict, &changes, gain, broken(evidence, question)),
        reason: reason(evidence, question, verdict, gain),
        recommended: Some(chosen),
        baseline,
        gain,
        probability: Some(found.probability),
        runs: evidence.belief.as_ref().map(|belief| libm::exp(belief.ln_works[found.candidate])),
        constraints,
        changes,
        apply: if keep { Vec::new() } else { change::apply(evidence, found.candidate) },
        undo: if keep { Vec::new() } else { change::undo(evidence) },
    }
}

fn verdict(evidence: &Evidence, found: &Recommendation, gain: Option<Interval>) -> Verdict {
    let baseline = evidence.spec.baseline;
    let baseline_meets =
        evidence.trials.iter().any(|trial| Some(trial.candidate) == baseline && trial.meets(evidence.spec));
    match gain {
        _ if baseline == Some(found.candidate) => Verdict::Keep,
        Some(gain) if gain.low <= 1.0 && baseline_meets => Verdict::Unclear,
        _ if !found.confident => Verdict::Unsure,
        None => Verdict::Pick,
        Some(_) => Verdict::Change,
    }
}

/// The constraint that what runs now was measured to miss.
fn broken(evidence: &Evidence, question: &Question) -> Option<String> {
    let baseline = evidence.spec.baseline?;
    let trials: Vec<_> = evidence.trials.iter().filter(|trial| trial.candidate == baseline).collect();
    if trials.iter().any(|trial| trial.meets(evidence.spec)) || trials.iter().all(|trial| trial.works() != Some(true)) {
        return None;
    }
    let misses = |metric: &str, limit: crate::report::document::Limit| {
        trials.iter().any(|trial| trial.measurement(metric).is_some_and(|found| !limit.holds(found.value)))
    };
    let first = question.constraints.iter().find(|(metric, limit)| misses(metric, *limit));
    first.map(|(metric, limit)| question.limit(metric, *limit))
}

fn line(
    question: &Question,
    verdict: Verdict,
    changes: &[crate::report::document::Change],
    gain: Option<Interval>,
    broken: Option<String>,
) -> String {
    if verdict == Verdict::Keep {
        return "Keep the running spec: nothing better was found".to_owned();
    }
    let settings = headline::settings(changes);
    let words = gain.map(|gain| headline::gain(question, gain));
    match (verdict, words, broken) {
        (Verdict::Change, _, Some(broken)) => format!("{settings}: what runs now misses {broken}"),
        (Verdict::Unclear, Some(words), _) => {
            format!("No clear gain: keep the running spec, or {} for perhaps {words}", begin(&settings, false))
        }
        (Verdict::Unsure, Some(words), _) => format!("{settings}, with care: {words}"),
        (Verdict::Unsure, None, _) => format!("{settings}, with care: the {} found", question.objective),
        (_, Some(words), _) => format!("{settings}: {words}"),
        (_, None, _) => format!("{settings}: the {} found", question.objective),
    }
}

fn reason(evidence: &Evidence, question: &Question, verdict: Verdict, gain: Option<Interval>) -> String {
    let trials = evidence.entries.iter().filter(|entry| entry.attempt.purpose == Purpose::Search).count();
    let effort = format!(
        "Found in {} of {}.",
        headline::count(trials, "trial", "trials"),
        headline::count(question.candidates, "candidate", "candidates")
    );
    let compared = match (verdict, gain) {
        (Verdict::Keep, _) => "It was measured, and is the best that meets every constraint.".to_owned(),
        (_, Some(gain)) => {
            format!("Compared with what runs now: {}.", headline::interval(question, gain))
        }
        (_, None) if evidence.spec.baseline.is_some() => format!("{} The gain is not known.", unmeasured(evidence)),
        (_, None) => "No running spec was given, so that the gain is not known.".to_owned(),
    };
    format!("{compared} {effort}")
}

/// Why there is nothing to compare with.
fn unmeasured(evidence: &Evidence) -> String {
    let failed = evidence.trials.iter().filter(|trial| Some(trial.candidate) == evidence.spec.baseline);
    let failure = failed.into_iter().find_map(|trial| match trial.outcome {
        modelway_tune::history::Outcome::Failed(failure) => Some(failure_words(failure)),
        _ => None,
    });
    failure.map_or_else(
        || "What runs now was not measured.".to_owned(),
        |words| format!("What runs now failed when it was tried: {words}."),
    )
}

/// With a first letter that is large or small.
fn begin(text: &str, large: bool) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let first: String = if large { first.to_uppercase().collect() } else { first.to_lowercase().collect() };
    first + letters.as_str()
}

/// Which constraint stands in the way, and by how much.
fn nothing_meets(question: &Question, shortfalls: &[Shortfall]) -> String {
    let missed = shortfalls.iter().find(|shortfall| !shortfall.met);
    let Some(missed) = missed else {
        return "Change nothing: each constraint was met by some candidate, but no candidate met all".to_owned();
    };
    let limit = promise::limit_of(question, missed);
    let by = limit.excess(missed.best).map(|share| format!(" ({} beyond)", percent(share))).unwrap_or_default();
    format!(
        "Change nothing: no candidate met {}; the nearest had {}{by}",
        question.limit(&missed.metric, limit),
        question.show(&missed.metric, missed.best),
    )
}

fn percent(share: f64) -> String {
    format!("{} %", crate::report::quantity::significant(share * 100.0, 2))
}

fn nothing_meets_reason(evidence: &Evidence, shortfalls: &[Shortfall]) -> String {
    let tried = headline::count(evidence.trials.len(), "trial", "trials");
    let mut reason = format!("{} ended; none met every constraint.", begin(&tried, true));
    reason.push_str(if shortfalls.iter().all(|shortfall| shortfall.met) {
        " The constraints pull apart: relax one of them, or allow larger resources."
    } else {
        " Relax this limit, or allow values that are not among the candidates, such as larger resources."
    });
    reason
}

fn nothing_ran(evidence: &Evidence, failures: &BTreeMap<Failure, usize>, baseline: Option<Choice>) -> Decision {
    let kinds = failures.iter().map(|(failure, count)| format!("{count} × {}", failure_words(*failure)));
    let last = evidence.entries.iter().rev().find(|entry| !entry.message.is_empty());
    let last = last.map(|entry| format!(" Last: {}", entry.message)).unwrap_or_default();
    let trials = headline::count(evidence.trials.len(), "trial", "trials");
    Decision {
        verdict: Verdict::Failed,
        headline: format!("Change nothing: no candidate ran in {trials}"),
        reason: format!("{}.{last}", kinds.collect::<Vec<_>>().join(", ")),
        baseline,
        ..Decision::default()
    }
}
