//! When not to trust a decision.

use modelway_tune::history::Failure;
use modelway_tune::space::{Candidate, Scale};
use modelway_tune::stop::Stop;

use super::headline::count;
use super::rows::failure_words;
use super::{Evidence, headline};
use crate::record::Setting;
use crate::report::document::{Caution, Promise, Report, TrialOutcome, Verdict, Weight};
use crate::report::quantity::{change, probability, significant, whole};

/// Fewer candidates say little of a larger space: the start design alone has three or four.
const FEW_CANDIDATES: usize = 6;

/// A longer measurement that differs by more than this was not foreseen by the search.
const DIFFERENCE: f64 = 0.1;

/// A probability from which on a promise is worth its name.
const ENOUGH: f64 = 0.95;

/// A parameter that explains less does not deserve a wider range.
const MATTERS: f64 = 0.05;

/// The gravest first.
pub(super) fn cautions(evidence: &Evidence, report: &Report) -> Vec<Caution> {
    let mut cautions: Vec<Caution> = Vec::new();
    cautions.extend(unfinished(evidence));
    cautions.extend(generator(evidence, report));
    cautions.extend(chances(report));
    cautions.extend(gain(report));
    cautions.extend(rechecks(evidence, report));
    cautions.extend(effort(evidence, report));
    cautions.extend(unbounded(report));
    cautions.extend(cliffs(evidence));
    cautions.extend(failures(evidence, report));
    cautions.extend(limits(evidence));
    cautions.extend(edges(evidence, report));
    cautions.extend(subset(report));
    cautions.sort_by_key(|caution| caution.weight);
    cautions
}

fn grave(text: impl Into<String>) -> Caution {
    Caution { weight: Weight::Grave, text: text.into() }
}

fn care(text: impl Into<String>) -> Caution {
    Caution { weight: Weight::Care, text: text.into() }
}

fn note(text: impl Into<String>) -> Caution {
    Caution { weight: Weight::Note, text: text.into() }
}

fn unfinished(evidence: &Evidence) -> Option<Caution> {
    let unfinished = evidence.record.end.is_none() && !evidence.entries.is_empty();
    unfinished.then(|| grave("The experiment has not ended: this is what is known so far."))
}

fn generator(evidence: &Evidence, report: &Report) -> Option<Caution> {
    let bound = report.trials.iter().filter(|trial| trial.generator_bound).count();
    let chosen = report.trials.iter().any(|trial| trial.generator_bound && report.is_recommended(trial.candidate));
    let why = evidence.entries.iter().find_map(|entry| entry.generator_bound.first());
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    if chosen {
        let text = "The load generator was the limit in a trial of the recommended spec, which may bear more than was \
                    measured";
        return Some(grave(format!("{text}{why}. Give the generator more cores, and run the experiment again.")));
    }
    let of = whole(report.trials.len());
    (bound > 0).then(|| care(format!("The load generator was the limit in {bound} of {of} trials{why}.")))
}

/// What is not sure enough about the recommendation itself.
fn chances(report: &Report) -> Vec<Caution> {
    let weak = |promise: &&Promise| promise.probability.is_some_and(|chance| chance < ENOUGH);
    let mut cautions: Vec<Caution> = report
        .decision
        .constraints
        .iter()
        .filter(weak)
        .map(|promise| {
            let chance = probability(promise.probability.unwrap_or_default());
            let limit = report.question.limit(&promise.metric, promise.limit);
            grave(format!("The chance that {limit} holds is {chance}. Measure it again before it takes traffic."))
        })
        .collect();
    let together = report.decision.probability.is_some_and(|chance| chance < ENOUGH);
    cautions.extend(running(report).filter(|_| together));
    if together && cautions.is_empty() {
        let chance = probability(report.decision.probability.unwrap_or_default());
        cautions.push(grave(format!("The chance that it runs and every constraint holds at once is {chance}.")));
    }
    cautions
}

/// The model learns from failures close by; what the spec itself did says more.
fn running(report: &Report) -> Option<Caution> {
    let chance = report.decision.runs.filter(|chance| *chance < ENOUGH)?;
    let of = |outcomes: &[TrialOutcome]| {
        let own = report.trials.iter().filter(|trial| report.is_recommended(trial.candidate));
        own.filter(|trial| outcomes.contains(&trial.outcome)).count()
    };
    let (ran, failed) = (of(&[TrialOutcome::Met, TrialOutcome::Missed]), of(&[TrialOutcome::Failed]));
    let chance = probability(chance);
    if failed > 0 {
        let all = ran + failed;
        return Some(grave(format!(
            "It did not run in {failed} of its {all} trials; the chance that it runs is {chance}."
        )));
    }
    let own = if ran == 1 { "in its one trial".to_owned() } else { format!("in all of its {ran} trials") };
    let text =
        format!("Specs like it failed, so that the model gives it a chance of {chance} to run. It did run {own}.");
    Some(care(text))
}

fn gain(report: &Report) -> Option<Caution> {
    let decision = &report.decision;
    let gain =
        decision.gain.filter(|gain| gain.low <= 1.0 && gain.high >= 1.0 && decision.verdict == Verdict::Unclear)?;
    let interval = headline::interval(&report.question, gain);
    Some(care(format!("The gain ({interval}) may be none at all: what was seen may be noise.")))
}

fn rechecks(evidence: &Evidence, report: &Report) -> Option<Caution> {
    let recommended = report.decision.recommended.as_ref()?;
    let row = report.rechecks.iter().find(|row| row.recommended);
    let Some(row) = row.filter(|row| !row.again.is_empty()) else {
        let times = report.trials.iter().filter(|trial| trial.candidate == recommended.candidate).count();
        let planned = evidence.record.question.confirm.top > 0 && evidence.record.end.is_none();
        let text = "The recommended spec was measured once. The best of many numbers is flattered by chance: measure it \
                    again before you rely on the gain.";
        return (times < 2 && !planned).then(|| care(text));
    };
    if row.met.iter().any(|met| !met) {
        return Some(grave("Measured again, the recommended spec missed a constraint."));
    }
    let difference = row.difference().filter(|factor| (factor - 1.0).abs() > DIFFERENCE)?;
    Some(care(format!(
        "Measured again, the recommended spec gave {} against the search: single numbers here are that uncertain.",
        change(difference)
    )))
}

fn effort(evidence: &Evidence, report: &Report) -> Vec<Caution> {
    let question = &report.question;
    let mut cautions = Vec::new();
    if question.tried > 0 && question.tried < FEW_CANDIDATES.min(question.candidates) {
        let tried = count(question.tried, "candidate", "candidates");
        cautions.push(care(format!(
            "Only {tried} of {} {} tried.",
            whole(question.candidates),
            if question.tried == 1 { "was" } else { "were" }
        )));
    }
    let used_up = match evidence.record.end.as_ref().map(|end| end.stop) {
        Some(Stop::Trials) => "its trials were",
        Some(Stop::Time) => "its time was",
        Some(Stop::Money) => "its money was",
        Some(Stop::Failures) => "its failures were",
        Some(Stop::Machine) => "its patience with the machine was",
        Some(Stop::Exhausted | Stop::LittleToGain) | None => return cautions,
    };
    if report.decision.recommended.is_some() {
        cautions
            .push(note(format!("The search ended because {used_up} used up, not because nothing was left to gain.")));
    }
    cautions
}

fn unbounded(report: &Report) -> Option<Caution> {
    let none = report.question.constraints.is_empty() && report.decision.constraints.is_empty();
    (none && report.decision.recommended.is_some())
        .then(|| care("Nothing limits latency or errors: the best may be too slow or too faulty for its users."))
}

/// Neighbours of the recommendation that did not run.
fn cliffs(evidence: &Evidence) -> Vec<Caution> {
    let Some(found) = evidence.recommendation() else { return Vec::new() };
    let space = &evidence.spec.space;
    let mut cautions = Vec::new();
    let mut seen: Vec<Candidate> = Vec::new();
    for entry in &evidence.entries {
        let candidate = entry.attempt.candidate;
        let modelway_tune::history::Outcome::Failed(failure) = entry.attempt.outcome else { continue };
        let says = !matches!(failure, Failure::Infrastructure | Failure::ObjectiveUnmet);
        if says && !seen.contains(&candidate) && space.is_next_to(found.candidate, candidate) {
            seen.push(candidate);
            let changed = difference(evidence, found.candidate, candidate);
            let words = failure_words(failure);
            cautions
                .push(care(format!("Close by is a spec that did not run: {changed} ({words}). Leave it some room.")));
        }
    }
    cautions
}

fn difference(evidence: &Evidence, from: Candidate, to: Candidate) -> String {
    let pairs = evidence.spec.space.settings(from).into_iter().zip(evidence.spec.space.settings(to));
    let changed = pairs.filter(|(from, to)| from.1 != to.1);
    let texts = changed.map(|(from, to)| format!("{} = {} instead of {}", to.0, to.1, from.1));
    texts.collect::<Vec<_>>().join(", ")
}

fn failures(evidence: &Evidence, report: &Report) -> Vec<Caution> {
    let of = |outcome: TrialOutcome| report.trials.iter().filter(|trial| trial.outcome == outcome).count();
    let (failed, void, all) = (of(TrialOutcome::Failed), of(TrialOutcome::Void), report.trials.len());
    let mut cautions = Vec::new();
    if failed * 3 > all && report.decision.recommended.is_some() {
        cautions.push(note(format!("{failed} of {all} trials did not run: the table of trials says why.")));
    }
    if void > 0 {
        let trials = count(void, "trial", "trials");
        cautions
            .push(note(format!("Ended by a failure of the machine, and so without a word on their specs: {trials}.")));
    }
    if !evidence.record.left_out.is_empty() {
        let parts = evidence.record.left_out.join(", ");
        cautions.push(note(format!("To keep the record small, parts were left out: {parts}.")));
    }
    cautions
}

/// Limits that the trials asked for and nothing enforced.
fn limits(evidence: &Evidence) -> Option<Caution> {
    let weak = |way: &str| {
        let way = way.to_lowercase();
        way.starts_with("none") || way.starts_with("no ") || way.contains("not enforced") || way.contains("unlimited")
    };
    // A resource that nobody limits needs no limit in the trials; what is said of pods is said of all their limits.
    let tuned = |limit: &str| {
        let resource =
            |setting: &Setting| setting.category == "resource" && (setting.name == limit || setting.target == limit);
        limit == "pod" || evidence.record.settings.iter().any(resource)
    };
    let each = evidence.entries.iter().flat_map(|entry| &entry.limits);
    let names: std::collections::BTreeSet<&str> =
        each.filter(|(limit, way)| tuned(limit) && weak(way)).map(|(limit, _)| limit.as_str()).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        care(format!(
            "Not enforced during the trials: {names}. With that limit in place the spec may be slower, or end."
        ))
    })
}

/// The best at the end of a range: more of it may be better still.
fn edges(evidence: &Evidence, report: &Report) -> Vec<Caution> {
    let Some(found) = evidence.recommendation() else { return Vec::new() };
    let space = &evidence.spec.space;
    let mut cautions = Vec::new();
    for (parameter, index) in space.parameters().iter().zip(space.indices(found.candidate)) {
        let ordered = matches!(parameter.scale, Scale::Linear | Scale::Log2) && parameter.levels.len() > 2;
        let last = parameter.levels.len() - 1;
        // Nothing lies below none or one of most things.
        let least = parameter.levels[*index].number.is_some_and(|number| number <= 1.0 && number.fract().abs() < 1e-9);
        let end = match *index {
            0 if least => continue,
            0 => "lowest",
            index if index == last => "highest",
            _ => continue,
        };
        let share = report.importance.iter().find(|row| row.parameter == parameter.name).map_or(0.0, |row| row.total);
        if ordered && share >= MATTERS {
            cautions.push(note(format!(
                "{} = {} is the {end} value allowed, and it matters ({} % of what changes): a wider range may be better.",
                parameter.name,
                parameter.levels[*index].text,
                significant(share * 100.0, 2)
            )));
        }
    }
    cautions
}

fn subset(report: &Report) -> Option<Caution> {
    let count = whole(report.question.candidates);
    report
        .question
        .subset
        .then(|| note(format!("The search saw {count} evenly spread candidates, not every combination.")))
}
