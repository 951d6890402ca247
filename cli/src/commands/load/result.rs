//! What a trial keeps of a run: a few numbers, short enough for a termination message.

use std::collections::BTreeMap;
use std::path::Path;

use modelway_tune::history::Measurement;
use modelway_tuner::file::metric_of;
use modelway_tuner::load::drive::Found;
use modelway_tuner::load::search::Outcome;
use modelway_tuner::load::{Finished, Options, Report};
use modelway_tuner::local::metrics::measurements;
use serde::Serialize;

use crate::exit::{CommandError, Failure, fail};

/// Kubernetes keeps 4096 bytes of a termination message.
const BYTES_MAX: usize = 3 << 10;
const MESSAGE_MAX: usize = 512;
/// Width of the bracket where a search never met a rate that was too high, and where it ended without a certificate.
const OPEN_BRACKET: f64 = 0.05;
const UNCERTAIN: f64 = 0.35;

/// The document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    version: u32,
    state: State,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    generator_bound: bool,
    metrics: BTreeMap<String, f64>,
    variances: BTreeMap<String, f64>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Measured,
    /// It meets its constraints at no rate.
    Unmet,
    /// It gives no good answer.
    Silent,
    /// Nothing was measured, by no fault of the server.
    Failed,
}

impl Document {
    fn new(state: State, message: &str, values: BTreeMap<String, Measurement>) -> Self {
        let message = message.chars().take(MESSAGE_MAX).collect();
        let variances = values.iter().filter(|(_, found)| found.variance > 0.0 && found.variance.is_finite());
        let variances = variances.map(|(name, found)| (name.clone(), found.variance)).collect();
        let metrics = values.into_iter().map(|(name, found)| (name, found.value)).collect();
        Self { version: 1, state, message, generator_bound: false, metrics, variances }
    }
}

/// What a run at a given load says.
pub fn of_run(options: &Options, report: &Report, finished: &Finished) -> Document {
    let values = values(options, report, finished);
    if report.requests.ok == 0 {
        let why = report.errors.first().map(|class| format!(": {}", class.example)).unwrap_or_default();
        let message = format!("none of {} requests was answered well{why}", report.requests.failed);
        return Document::new(State::Unmet, &message, values);
    }
    let mut document = Document::new(State::Measured, "", values);
    if let Some(bound) = report.generator.bound.first() {
        document.generator_bound = true;
        document.message = format!("the generator was the bottleneck, not the server: {bound}");
    }
    document
}

/// What a search for the highest rate says.
pub fn of_search(options: &Options, found: &Found) -> Document {
    let (Some(report), Some(finished)) = (&found.report, &found.last) else {
        return Document::new(State::Unmet, "nothing was tried", BTreeMap::new());
    };
    let mut values = values(options, report, finished);
    let (rate, width, message) = match found.outcome {
        Outcome::Certified { rate, missed_at } => {
            (Some(rate), missed_at.map_or(rate * OPEN_BRACKET, |missed| (missed - rate).abs()), "")
        }
        Outcome::GeneratorBound { rate } => (
            Some(rate),
            rate * UNCERTAIN,
            "the generator was the bottleneck, not the server: it bears more than was sent",
        ),
        Outcome::Uncertain { rate } => {
            (rate, rate.unwrap_or(0.0) * UNCERTAIN, "not certified: the server's times are too noisy")
        }
        Outcome::Infeasible => (None, 0.0, "one user alone misses the constraints"),
    };
    let Some(rate) = rate else {
        let missed = report
            .constraints
            .iter()
            .filter(|judged| !judged.met)
            .filter_map(|judged| Some(format!("{} came to {:.4}", judged.constraint, judged.observed?)));
        let missed: Vec<String> = missed.collect();
        values.remove("rate");
        return Document::new(State::Unmet, &format!("{message}: {}", missed.join(", ")), values);
    };
    let noise = if finished.window > 0.0 { rate / finished.window } else { 0.0 };
    values.insert("rate".to_owned(), Measurement { value: rate, variance: width * width / 12.0 + noise });
    let mut document = Document::new(State::Measured, message, values);
    document.generator_bound = matches!(found.outcome, Outcome::GeneratorBound { .. });
    document
}

fn values(options: &Options, report: &Report, finished: &Finished) -> BTreeMap<String, Measurement> {
    let wanted: Vec<String> = options.constraints.iter().map(metric_of).collect();
    measurements(report, finished, wanted.iter().map(String::as_str))
}

/// Writes the document; what makes it too long is left out.
pub fn write(path: &Path, document: &Document) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(document)?;
    if text.len() > BYTES_MAX {
        let short = Document {
            variances: BTreeMap::new(),
            message: String::new(),
            metrics: document.metrics.clone(),
            ..*document
        };
        text = serde_json::to_string(&short)?;
    }
    std::fs::write(path, text)
        .map_err(|error| fail(Failure::Failed, format!("cannot write the result to {}: {error}", path.display())))
}

/// Writes why there is no result.
pub fn write_failure(path: &Path, error: &anyhow::Error) -> anyhow::Result<()> {
    let state = match error.downcast_ref::<CommandError>().map(|error| error.failure) {
        Some(Failure::Unreachable | Failure::Refused) => State::Silent,
        _ => State::Failed,
    };
    write(path, &Document::new(state, &error.to_string(), BTreeMap::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_fits_into_a_termination_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let one =
            |index: usize| (format!("latency.p99.{index}"), Measurement { value: 1.0 / 3.0, variance: 1.0 / 7.0 });
        write(&path, &Document::new(State::Measured, &"x".repeat(5_000), (0..48).map(one).collect())).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() <= BYTES_MAX, "{} bytes", text.len());
        assert!(text.starts_with(r#"{"version":1,"state":"measured","#), "{text}");
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        write_failure(&path, &fail(Failure::Unreachable, "nobody listens")).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains(r#""state":"silent","message":"nobody listens""#));
        write_failure(&path, &fail(Failure::Usage, "nonsense")).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains(r#""state":"failed""#));
    }
}
