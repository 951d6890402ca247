//! What a client tells in its termination message.

use std::collections::BTreeMap;

use modelway_api::trial::TrialFailure;
use serde::Deserialize;
use serde_json::Value;

/// Metrics that are kept of one client.
const METRICS_MAX: usize = 48;
const NAME_MAX: usize = 128;

/// A client's word on a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// What was measured: value and variance.
    pub metrics: BTreeMap<String, (f64, f64)>,
    /// Why nothing was measured.
    pub failure: Option<(TrialFailure, ClientReason)>,
    pub message: String,
    /// The load generator was the bottleneck: the service bears more than was measured.
    pub is_generator_bound: bool,
}

/// Why a load generator measured nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientReason {
    ObjectiveUnmet,
    ServiceSilent,
    ClientFailed,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    generator_bound: bool,
    #[serde(default)]
    metrics: BTreeMap<String, Value>,
    #[serde(default)]
    variances: BTreeMap<String, Value>,
}

/// Reads a termination message; `None` when it is none of ours.
pub fn read(message: &str) -> Option<Told> {
    let document: Document = serde_json::from_str(message.trim()).ok()?;
    let metrics = document.metrics.iter().filter_map(|(name, value)| {
        let variance = document.variances.get(name).and_then(number).filter(|variance| *variance >= 0.0);
        Some((name.clone(), (number(value)?, variance.unwrap_or(0.0))))
    });
    let metrics: BTreeMap<String, (f64, f64)> = metrics.filter(|(name, _)| is_name(name)).take(METRICS_MAX).collect();
    if document.state.is_none() && metrics.is_empty() {
        return None;
    }
    let failure = document.state.as_deref().and_then(failure);
    Some(Told { metrics, failure, message: document.message, is_generator_bound: document.generator_bound })
}

fn failure(state: &str) -> Option<(TrialFailure, ClientReason)> {
    match state {
        "measured" => None,
        "unmet" => Some((TrialFailure::ObjectiveUnmet, ClientReason::ObjectiveUnmet)),
        "silent" => Some((TrialFailure::StartTimeout, ClientReason::ServiceSilent)),
        _ => Some((TrialFailure::Infrastructure, ClientReason::ClientFailed)),
    }
}

/// Whether it can be a metric's name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_MAX && !name.chars().any(char::is_control)
}

/// A finite number, also as text: Morphling's clients write text.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    Some(number).filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_text_and_nonsense_is_left_out() {
        let told = read(r#"{"metrics": {"qps": "12.5", "rate": 3, "bad": "NaN", "worse": null, "": 1}, "variances": {"rate": 0.25, "qps": -1}}"#).unwrap();
        assert_eq!(
            told.metrics.into_iter().collect::<Vec<_>>(),
            [("qps".to_owned(), (12.5, 0.0)), ("rate".to_owned(), (3.0, 0.25))]
        );
        assert_eq!(told.failure, None);
    }

    #[test]
    fn states_are_failures_of_their_kind() {
        let failure =
            |state: &str| read(&format!(r#"{{"state": "{state}"}}"#)).unwrap().failure.map(|(failure, _)| failure);
        assert_eq!(failure("measured"), None);
        assert_eq!(failure("unmet"), Some(TrialFailure::ObjectiveUnmet));
        assert_eq!(failure("silent"), Some(TrialFailure::StartTimeout));
        assert_eq!(failure("what"), Some(TrialFailure::Infrastructure));
    }

    #[test]
    fn log_lines_are_no_result() {
        assert!(["", "done", "{}", "[1]", "{\"a\": 1}", "3"].iter().all(|text| read(text).is_none()));
    }
}
