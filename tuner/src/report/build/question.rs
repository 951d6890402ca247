//! What was asked, in words and units.

use std::collections::BTreeMap;

use modelway_tune::space::MAX_CANDIDATES;
use modelway_tune::spec::{Bound, Goal, Objective};
use modelway_tune::stop::Stop;

use super::Evidence;
use crate::load::Constraint;
use crate::report::document::{Limit, Question};
use crate::report::quantity::Unit;
use crate::report::visible::{one_line, shortened};

/// Letters of a unit at most: it stands beside every number.
const UNIT_LETTERS: usize = 24;

/// Rates that are known by their name alone.
const REQUEST_RATES: [&str; 7] = ["rate", "rps", "qps", "throughput", "capacity", "goodput", "requestsPerSecond"];

pub(super) fn question(evidence: &Evidence) -> Question {
    let spec = evidence.spec;
    let units = units(evidence);
    let cost = spec.cost.is_some().then(|| cost_unit(evidence));
    let (objective, metric, unit) = objective(&spec.objective, &units, cost.as_ref());
    let tried: std::collections::BTreeSet<usize> =
        evidence.entries.iter().map(|entry| entry.attempt.candidate).collect();
    let parameters = spec.space.parameters();
    Question {
        objective,
        unit,
        metric,
        minimize: spec.goal() == Goal::Minimize,
        units,
        constraints: spec.constraints.iter().map(|found| (found.metric.clone(), limit(found.bound))).collect(),
        parameters: parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        levels: parameters
            .iter()
            .map(|parameter| parameter.levels.iter().map(|level| level.text.clone()).collect())
            .collect(),
        candidates: spec.space.len(),
        subset: spec.space.len() == MAX_CANDIDATES,
        tried: tried.len(),
        cost,
        end: evidence.record.end.as_ref().map(|end| end_words(end.stop).to_owned()),
    }
}

pub(super) fn limit(bound: Bound) -> Limit {
    match bound {
        Bound::AtMost(limit) => Limit::AtMost(limit),
        Bound::AtLeast(limit) => Limit::AtLeast(limit),
    }
}

/// Every metric that was measured or asked for.
fn units(evidence: &Evidence) -> BTreeMap<String, Unit> {
    let measured = evidence.trials.iter().filter_map(|trial| match &trial.outcome {
        modelway_tune::history::Outcome::Measured(values) => Some(values.keys()),
        _ => None,
    });
    let asked = evidence.spec.constraints.iter().map(|constraint| &constraint.metric);
    let objective = match &evidence.spec.objective {
        Objective::Metric { metric, .. } => Some(metric),
        Objective::Cost => None,
    };
    let missed = evidence.entries.iter().flat_map(|entry| &entry.attempt.missed).map(|missed| &missed.metric);
    let names = measured.flatten().chain(asked).chain(objective).chain(missed);
    let given = &evidence.record.units;
    names.map(|name| (name.clone(), unit(name, given.get(name).map(String::as_str)))).collect()
}

/// `1/s` says what is counted; without a unit, a name that can only be a rate of requests does.
pub(super) fn unit(metric: &str, given: Option<&str>) -> Unit {
    match given {
        Some("1/s") if metric.to_lowercase().contains("token") => Unit::new("tokens/s"),
        Some("1/s") => Unit::new("requests/s"),
        Some(word) => Unit::new(shortened(&one_line(word), UNIT_LETTERS)),
        None if REQUEST_RATES.contains(&metric) => Unit::new("requests/s"),
        None if metric == "errors" => Unit::new(Unit::SHARE),
        None if of_load_generator(metric) => Unit::new(Unit::SECONDS),
        None => Unit::default(),
    }
}

/// `latency.p95`, `ttft.mean`: only the load generator has such names, and its times are in seconds.
fn of_load_generator(metric: &str) -> bool {
    let time = format!("{metric}<=1s").parse::<Constraint>();
    metric.contains('.') && matches!(time, Ok(Constraint::Time { .. }))
}

/// Costs are per hour, whether or not their unit says so.
fn cost_unit(evidence: &Evidence) -> Unit {
    let given = evidence.record.units.get("cost").map(|word| shortened(&one_line(word), UNIT_LETTERS));
    match given.as_deref() {
        None | Some("") => Unit::new("per hour"),
        Some(word) if word.contains("/h") || word.contains("hour") => Unit::new(word),
        Some(word) => Unit::new(format!("{word}/h")),
    }
}

fn objective(
    objective: &Objective,
    units: &BTreeMap<String, Unit>,
    cost: Option<&Unit>,
) -> (String, Option<String>, Unit) {
    let Objective::Metric { metric, goal, per_cost, .. } = objective else {
        return ("lowest cost".to_owned(), None, cost.cloned().unwrap_or_default());
    };
    let best = if *goal == Goal::Maximize { "highest" } else { "lowest" };
    let unit = units.get(metric).cloned().unwrap_or_default();
    if !per_cost {
        return (format!("{best} {metric}"), Some(metric.clone()), unit);
    }
    let cost = cost.map_or("cost", |cost| if cost.0 == "per hour" { "cost" } else { cost.0.as_str() });
    let number = if unit.0.is_empty() { metric.as_str() } else { unit.0.as_str() };
    match goal {
        Goal::Maximize => {
            (format!("highest {metric} per cost"), Some(metric.clone()), Unit::new(format!("{number} per {cost}")))
        }
        Goal::Minimize => {
            (format!("lowest {metric} × cost"), Some(metric.clone()), Unit::new(format!("{number} × {cost}")))
        }
    }
}

fn end_words(stop: Stop) -> &'static str {
    match stop {
        Stop::Exhausted => "every candidate was tried",
        Stop::Trials => "the allowed number of trials was reached",
        Stop::Failures => "more trials failed than allowed",
        Stop::Time => "the time was used up",
        Stop::Money => "the money was used up",
        Stop::LittleToGain => "the models promised little more",
        Stop::Machine => "the machine failed again and again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_say_what_they_count() {
        assert_eq!(unit("rate", Some("1/s")).0, "requests/s");
        assert_eq!(unit("outputTokensPerSecond", Some("1/s")).0, "tokens/s");
        assert_eq!(unit("qps", None).0, "requests/s");
        assert_eq!(unit("anything", None).0, "");
        assert_eq!(unit("latency.p95", None).0, "s");
        assert_eq!(unit("p95", None).0, "");
        assert_eq!(unit("p95", Some("s")).0, "s");
    }
}
