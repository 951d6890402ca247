//! The lines of a conversation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use modelway_tune::experiment::{End, Purpose, Verdict};
use modelway_tune::history::{Failure, Measurement};
use serde::{Deserialize, Serialize};

use super::QuestionFile;
use crate::record::Record;

/// What the other program says.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// First of all: what is asked.
    Question(Box<QuestionFile>),
    /// What is to be done now?
    Ask(Nothing),
    /// A trial ended.
    Tell(Told),
    /// What is known so far?
    Best(Nothing),
    /// Write the whole record to this file.
    Record(Target),
}

/// `{}`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Where a record goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    pub path: PathBuf,
}

/// How a trial ended: with metrics, or with a failure.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Told {
    pub trial: usize,
    #[serde(default)]
    pub metrics: BTreeMap<String, Number>,
    #[serde(default)]
    pub failed: Option<Failure>,
    #[serde(default)]
    pub seconds: Option<f64>,
    #[serde(default)]
    pub message: String,
}

/// A number, alone or with its variance; `null` is a metric that was not measured.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Number {
    Alone(f64),
    Known(Measurement),
    Missing(()),
}

/// What is said to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The question makes sense.
    Question { candidates: usize, trials: usize },
    /// Start this trial.
    Start { trial: usize, parameters: BTreeMap<String, String>, purpose: Purpose, why: String },
    /// Tell how one of these ended first.
    Wait { running: Vec<usize> },
    /// It is over.
    Finish { recommended: Option<BTreeMap<String, String>>, end: Box<End> },
    /// Noted.
    Told { trial: usize },
    /// What is known so far.
    Best { recommended: Option<BTreeMap<String, String>>, verdict: Box<Verdict> },
    /// The record was written.
    Record { path: PathBuf },
    /// The line makes no sense, and changed nothing.
    Error { line: usize, message: String },
}

impl Number {
    /// The measurement, if there is one.
    pub fn measurement(self) -> Option<Measurement> {
        match self {
            Self::Alone(value) => Some(Measurement { value, variance: 0.0 }),
            Self::Known(measurement) => Some(measurement),
            Self::Missing(()) => None,
        }
    }
}

/// The record of a conversation, for [`Answer`] and the journal.
pub(super) fn settings(record: &Record, candidate: usize) -> BTreeMap<String, String> {
    record.texts(candidate)
}
