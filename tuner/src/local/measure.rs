//! Measuring a service that answers, and what the numbers say about its candidate.

use modelway_tune::experiment::Missed;
use modelway_tune::history::{Failure, Measurement, Outcome};
use modelway_tune::spec::{Bound, Objective, Spec};
use serde_json::{Value, json};

use super::metrics::{measurements, shown};
use super::trial::Taken;
use crate::file::metric_of;
use crate::load::drive::Found;
use crate::load::report::Judged;
use crate::load::search::Outcome as Searched;
use crate::load::{Constraint, Finished, Report};

/// Width of the bracket where a search never met a rate that was too high.
const OPEN_BRACKET: f64 = 0.05;
/// How far off a rate may be that was not certified.
const UNCERTAIN: f64 = 0.1;

/// What a run at a fixed load says.
pub fn of_run(spec: &Spec, constraints: &[Constraint], report: &Report, finished: &Finished) -> Taken {
    let mut taken = Taken { report: document(report), ..Taken::default() };
    taken.generator_bound = report.generator.bound.iter().map(ToString::to_string).collect();
    if report.requests.ok == 0 {
        let why = report.errors.first().map(|class| format!(": {}", class.example)).unwrap_or_default();
        taken.message = format!("none of {} requests was answered well{why}", report.requests.failed);
        taken.missed = missed(constraints, &report.constraints);
        taken.outcome = Outcome::Failed(Failure::ObjectiveUnmet);
        return taken;
    }
    let values = measurements(report, finished, wanted(spec));
    taken.message = sentence(spec, &values);
    taken.outcome = Outcome::Measured(values);
    taken
}

/// What a search for the highest rate says.
pub fn of_search(spec: &Spec, constraints: &[Constraint], found: &Found) -> Taken {
    let mut taken = Taken { report: search_document(found), ..Taken::default() };
    let (rate, width) = match found.outcome {
        Searched::Certified { rate, missed_at } => {
            (Some(rate), missed_at.map_or(rate * OPEN_BRACKET, |missed| (missed - rate).abs()))
        }
        Searched::GeneratorBound { rate } => {
            taken.generator_bound = vec!["it can bear more than the generator sends".to_owned()];
            (Some(rate), rate * UNCERTAIN)
        }
        // Twice its deviation either way.
        Searched::Uncertain { rate } => (rate, rate.unwrap_or(0.0) * UNCERTAIN * 12.0_f64.sqrt()),
        Searched::Infeasible => (None, 0.0),
    };
    let (Some(rate), Some(report), Some(finished)) = (rate, &found.report, &found.last) else {
        taken.missed = found.report.as_ref().map(|report| missed(constraints, &report.constraints)).unwrap_or_default();
        let list: Vec<String> =
            taken.missed.iter().map(|one| format!("{} is {}", one.metric, shown(&one.metric, one.value))).collect();
        let which = if list.is_empty() { "none could be certified".to_owned() } else { list.join(", ") };
        taken.message = format!("it meets its objectives at no rate: {which}");
        taken.outcome = Outcome::Failed(Failure::ObjectiveUnmet);
        return taken;
    };
    let mut values = measurements(report, finished, wanted(spec));
    let noise = if finished.window > 0.0 { rate / finished.window } else { 0.0 };
    values.insert("rate".to_owned(), Measurement { value: rate, variance: width * width / 12.0 + noise });
    taken.message = sentence(spec, &values);
    if matches!(found.outcome, Searched::Uncertain { .. }) {
        taken.message.push_str(" (not certified: its times are noisy)");
    }
    taken.outcome = Outcome::Measured(values);
    taken
}

/// The metrics that the spec asks for.
fn wanted(spec: &Spec) -> impl Iterator<Item = &str> {
    let objective = match &spec.objective {
        Objective::Metric { metric, .. } => Some(metric.as_str()),
        Objective::Cost => None,
    };
    objective.into_iter().chain(spec.constraints.iter().map(|constraint| constraint.metric.as_str()))
}

/// The objective and each constraint, for people.
fn sentence(spec: &Spec, values: &std::collections::BTreeMap<String, Measurement>) -> String {
    let mut names: Vec<&str> = wanted(spec).collect();
    if !names.contains(&"rate") {
        names.push("rate");
    }
    if !names.iter().any(|name| name.starts_with("latency")) {
        names.push("latency.p95");
    }
    names.dedup();
    let each = names.into_iter().map(|name| match values.get(name) {
        Some(found) => format!("{name} {}", shown(name, found.value)),
        None => format!("{name} not measured"),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn missed(constraints: &[Constraint], judged: &[Judged]) -> Vec<Missed> {
    let each = constraints.iter().zip(judged).filter(|(_, judged)| !judged.met);
    let each = each.filter_map(|(constraint, judged)| {
        let value = judged.observed.filter(|value| value.is_finite())?;
        let bound = match constraint {
            Constraint::Rate { .. } => Bound::AtLeast(judged.limit),
            Constraint::Time { .. } | Constraint::Errors { .. } => Bound::AtMost(judged.limit),
        };
        Some(Missed { metric: metric_of(constraint), bound, value })
    });
    each.collect()
}

fn document(report: &Report) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

/// A search in the form of `modelway load --search --output json`.
fn search_document(found: &Found) -> Value {
    let (outcome, rate, missed_at) = match found.outcome {
        Searched::Certified { rate, missed_at } => ("certified", Some(rate), missed_at),
        Searched::Infeasible => ("infeasible", None, None),
        Searched::GeneratorBound { rate } => ("generatorBound", Some(rate), None),
        Searched::Uncertain { rate } => ("uncertain", rate, None),
    };
    json!({
        "outcome": outcome,
        "rate": rate,
        "missedAt": missed_at,
        "tried": serde_json::to_value(&found.tried).unwrap_or_default(),
        "report": found.report.as_ref().map(document),
    })
}
