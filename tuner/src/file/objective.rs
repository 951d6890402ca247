//! From the file's words to what is maximised, and what must hold.

use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Transform};

use super::error::nearest;
use super::{FileError, GoalFile, TuneFile};
use crate::load::constraint::Statistic;
use crate::load::{self};

/// Errors below this share are as good as none: one in ten thousand.
const ERROR_FLOOR: f64 = 1e-4;

/// Metrics that are better when there is more of them.
const RATES: [&str; 3] = ["rate", "goodput", "tokens"];

/// Times that are measured, and what of each.
const TIMES: [&str; 4] = ["latency", "ttft", "itl", "tpot"];
const STATISTICS: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];

/// What is maximised.
pub fn objective(file: &TuneFile) -> Result<Objective, FileError> {
    let metric = file.objective.metric.as_deref().unwrap_or("rate");
    if metric == "cost" {
        return Ok(Objective::Cost);
    }
    if !is_metric(metric) {
        let known = names();
        let hint = nearest(metric, known.iter().map(String::as_str)).map(|near| format!("did you mean {near}?"));
        let hint = hint.unwrap_or_else(|| {
            "use rate, goodput, tokens, errors, cost, or a time such as latency.p95 or ttft.p99".to_owned()
        });
        return Err(FileError::field("objective.metric", format!("{metric} is not measured; {hint}")));
    }
    let is_rate = RATES.contains(&metric);
    let goal = match file.objective.goal {
        Some(GoalFile::Maximize) => Goal::Maximize,
        None if is_rate => Goal::Maximize,
        Some(GoalFile::Minimize) | None => Goal::Minimize,
    };
    let per_cost = file.objective.per_cost.unwrap_or(is_rate && file.cost.is_some());
    Ok(Objective::Metric { metric: metric.to_owned(), goal, transform: transform(metric), per_cost })
}

/// The constraints of the file, split into those that a rate search runs on and those that the models learn.
pub struct Constraints {
    /// Of the load generator.
    pub load: Vec<load::Constraint>,
    /// Of the search for a candidate.
    pub spec: Vec<Constraint>,
}

/// Reads the constraints. In a rate search each trial ends at the limits themselves, which therefore teach nothing.
pub fn constraints(texts: &[String], rate_search: bool) -> Result<Constraints, FileError> {
    let mut found = Constraints { load: Vec::new(), spec: Vec::new() };
    for text in texts {
        let constraint: load::Constraint = text.parse().map_err(|problem| FileError::field("constraints", problem))?;
        let searched = rate_search && constraint.allowance().is_some();
        if !searched {
            found.spec.push(learned(&constraint));
        }
        if searched || !rate_search {
            found.load.push(constraint);
        }
    }
    Ok(found)
}

fn learned(constraint: &load::Constraint) -> Constraint {
    let metric = metric_of(constraint);
    let bound = match constraint {
        load::Constraint::Time { limit, .. } => Bound::AtMost(limit.as_secs_f64()),
        load::Constraint::Errors { limit } => Bound::AtMost(*limit),
        load::Constraint::Rate { minimum } => Bound::AtLeast(*minimum),
    };
    Constraint { transform: transform(&metric), metric, bound }
}

/// The name of the metric that a constraint limits.
pub fn metric_of(constraint: &load::Constraint) -> String {
    match constraint {
        load::Constraint::Time { metric, statistic, .. } => {
            let statistic = match statistic {
                Statistic::Quantile(quantile) => percentile(*quantile),
                Statistic::Mean => "mean".to_owned(),
                Statistic::Max => "max".to_owned(),
            };
            format!("{}.{statistic}", metric.name())
        }
        load::Constraint::Errors { .. } => "errors".to_owned(),
        load::Constraint::Rate { .. } => "rate".to_owned(),
    }
}

/// `p99.9`.
pub fn percentile(quantile: f64) -> String {
    format!("p{}", (quantile * 1e8).round() / 1e6)
}

fn transform(metric: &str) -> Transform {
    match metric {
        "errors" => Transform::Logit { floor: ERROR_FLOOR },
        metric if RATES.contains(&metric) => Transform::LOG,
        // Nothing is faster than a microsecond.
        _ => Transform::Log { floor: 1e-6 },
    }
}

/// Unit of a metric.
pub fn unit(metric: &str) -> &'static str {
    match metric {
        "errors" => "share",
        metric if RATES.contains(&metric) => "1/s",
        _ => "s",
    }
}

fn is_metric(metric: &str) -> bool {
    let time = |(time, statistic): (&str, &str)| {
        let percent = statistic.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok());
        let known = STATISTICS.contains(&statistic) || percent.is_some_and(|percent| percent > 0.0 && percent < 100.0);
        TIMES.contains(&time) && known
    };
    RATES.contains(&metric) || metric == "errors" || metric.split_once('.').is_some_and(time)
}

fn names() -> Vec<String> {
    let times = TIMES.iter().flat_map(|time| STATISTICS.iter().map(move |statistic| format!("{time}.{statistic}")));
    RATES.iter().map(|name| (*name).to_owned()).chain(["errors".to_owned(), "cost".to_owned()]).chain(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_name_the_metric_that_they_limit() {
        for (text, metric) in [
            ("p95<=50ms", "latency.p95"),
            ("ttft.p99.9<=1s", "ttft.p99.9"),
            ("itl.mean<=1s", "itl.mean"),
            ("rate>=5", "rate"),
        ] {
            assert_eq!(metric_of(&text.parse().unwrap()), metric);
            assert!(is_metric(metric));
        }
    }

    #[test]
    fn a_rate_search_keeps_the_limits_that_it_runs_on() {
        let texts = ["p95<=50ms", "errors<=1%", "rate>=100", "latency.mean<=10ms"].map(str::to_owned);
        let split = constraints(&texts, true).unwrap();
        assert_eq!(split.load.len(), 2);
        let learned: Vec<&str> = split.spec.iter().map(|constraint| constraint.metric.as_str()).collect();
        assert_eq!(learned, ["rate", "latency.mean"]);
        let fixed = constraints(&texts, false).unwrap();
        assert_eq!((fixed.load.len(), fixed.spec.len()), (4, 4));
    }
}
