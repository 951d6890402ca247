//! What the load generator itself says of the limits up to which it raised the rate.

use modelway_tune::space::Candidate;
use serde_json::Value;

use super::Evidence;
use crate::load::Constraint;
use crate::report::document::Limit;
use crate::report::quantity::Unit;

/// A limit that the load generator judged.
pub(super) struct Searched {
    pub(super) metric: String,
    pub(super) unit: Unit,
    pub(super) limit: Limit,
    pub(super) observed: Option<f64>,
    pub(super) met: bool,
    pub(super) certain: bool,
}

/// Those of the candidate's last trial that has a report with any.
pub(super) fn constraints(evidence: &Evidence, candidate: Candidate) -> Vec<Searched> {
    let reports = evidence.of(candidate).map(|entry| judged(&entry.report).filter_map(searched).collect::<Vec<_>>());
    reports.filter(|found| !found.is_empty()).last().unwrap_or_default()
}

/// Limits up to which a search raised the rate stand in the report of its last step.
fn judged(report: &Value) -> impl Iterator<Item = &Value> {
    let places = [&report["constraints"], &report["report"]["constraints"]];
    places.into_iter().filter_map(Value::as_array).flatten()
}

fn searched(judged: &Value) -> Option<Searched> {
    let text = judged["constraint"].as_str()?;
    let constraint: Constraint = text.parse().ok()?;
    let metric = text.split(['<', '>']).next()?.trim().to_owned();
    let limit = judged["limit"].as_f64().filter(|limit| limit.is_finite())?;
    let (unit, limit) = match constraint {
        Constraint::Time { .. } => (Unit::SECONDS, Limit::AtMost(limit)),
        Constraint::Errors { .. } => (Unit::SHARE, Limit::AtMost(limit)),
        Constraint::Rate { .. } => ("requests/s", Limit::AtLeast(limit)),
    };
    let flag = |name: &str| judged[name].as_bool().unwrap_or(false);
    let observed = judged["observed"].as_f64();
    Some(Searched { metric, unit: Unit::new(unit), limit, observed, met: flag("met"), certain: flag("certain") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_report_of_a_run_and_of_a_search() {
        let run = serde_json::json!({"constraints": [
            {"constraint": "p95<=50ms", "observed": 0.04, "limit": 0.05, "met": true, "certain": true},
            {"constraint": "nonsense", "limit": 1.0},
            {"constraint": 7},
        ]});
        let search = serde_json::json!({"report": run.clone()});
        for report in [run, search] {
            let found: Vec<Searched> = judged(&report).filter_map(searched).collect();
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].metric.as_str(), found[0].limit), ("p95", Limit::AtMost(0.05)));
            assert!(found[0].met && found[0].certain);
        }
        assert_eq!(judged(&Value::Null).count(), 0);
    }
}
