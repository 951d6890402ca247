//! The document of an experiment: all that a report, a replay or a later experiment needs, in one file.
//!
//! Fields are only ever added, each with a default: a document that was written once opens in every later version.

use std::collections::BTreeMap;

use modelway_tune::experiment::{Attempt, End, Purpose, Question, Why};
use modelway_tune::history::Outcome;
use modelway_tune::space::Candidate;
use modelway_tune::warm::{Source, SourceTrial};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the document that this program writes.
pub const VERSION: u32 = 1;

/// An experiment, whole or as far as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the document; one with a higher number may have what this program does not know.
    pub version: u32,
    /// What it is called.
    pub name: String,
    /// Version of Modelway that ran it.
    #[serde(default)]
    pub modelway: String,
    /// Version of the method that chose the trials.
    #[serde(default = "first_method")]
    pub method: u32,
    /// What was asked: parameters with names and levels, objective, constraints, costs, limits, seed.
    pub question: Question,
    /// For each parameter, what it is in the service.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Unit of each metric: `s`, `1/s`, `share`; of the cost per hour under `cost`.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
    /// What was tuned.
    #[serde(default)]
    pub service: Service,
    /// How load was sent, for people and for the next run.
    #[serde(default)]
    pub load: Value,
    /// Where it ran.
    #[serde(default)]
    pub machine: Machine,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<u64>,
    /// Seconds that it ran, interruptions left out.
    #[serde(default)]
    pub elapsed: f64,
    /// The trials in order.
    #[serde(default)]
    pub trials: Vec<Entry>,
    /// How it ended; none while it runs.
    #[serde(default)]
    pub end: Option<End>,
    /// How to use what it recommends.
    #[serde(default)]
    pub apply: Option<Apply>,
    /// What was left out to keep the document small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What the choice of the next one needs.
    #[serde(flatten)]
    pub attempt: Attempt,
    /// Its name, such as that of the Trial object.
    #[serde(default)]
    pub name: String,
    /// Value of each parameter, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Why it was tried.
    #[serde(default)]
    pub why: Option<Why>,
    /// Other trials that were running when it was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<usize>,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// What happened, in a sentence for people.
    #[serde(default)]
    pub message: String,
    /// Last lines of the service's log, where it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// How each limit was enforced, such as `cpu: affinity to 2 cores`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Why the load generator was the limit, where it was: the numbers say more of it than of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generator_bound: Vec<String>,
    /// The whole report of the load generator, or of the client.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub report: Value,
}

/// What a parameter is in the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// `resource`, `env` or `args`.
    pub category: String,
    /// What it is called in the service, where that differs: an environment variable, a resource.
    pub target: String,
}

/// What was tuned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// Not known.
    #[default]
    Unknown,
    /// A command of this machine, with `${NAME}` for each parameter.
    #[serde(rename_all = "camelCase")]
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables set for it.
        #[serde(default)]
        environment: BTreeMap<String, String>,
        /// Where it runs.
        #[serde(default)]
        directory: String,
    },
    /// A server that somebody else runs, told of each candidate by a command.
    #[serde(rename_all = "camelCase")]
    Url {
        /// Where it is.
        url: String,
        /// Tells it, with `${NAME}` for each parameter.
        #[serde(default)]
        restart: Vec<String>,
    },
    /// Pods of a cluster.
    #[serde(rename_all = "camelCase")]
    Pods {
        /// Their namespace.
        namespace: String,
        /// The Inference and its predictor, where one is tuned.
        #[serde(default)]
        inference: Option<(String, String)>,
        /// Image of each container, with its digest where known.
        #[serde(default)]
        images: BTreeMap<String, String>,
    },
}

/// Where an experiment ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// Nodes, or the host's name.
    pub nodes: Vec<String>,
    /// Model of the CPU.
    pub cpu: String,
    /// Cores that could be used.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Kernel.
    pub system: String,
    /// What else says how it was measured, such as `generator: core 0, service: core 1`.
    pub notes: Vec<String>,
}

/// How to use a recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Apply {
    /// The change itself: a patch, or a command line.
    pub change: String,
    /// Its language: `yaml`, `json`, `sh`.
    pub language: String,
    /// Command lines that make the change.
    pub commands: Vec<String>,
    /// Command lines that take it back.
    pub undo: Vec<String>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// It is no record.
    #[error("{path} is no record of an experiment: {source}")]
    Parse { path: String, source: serde_json::Error },
    /// It is damaged.
    #[error("{path}: {problem}")]
    Damaged { path: String, problem: String },
    /// It cannot be written.
    #[error("cannot write {path}: {source}; what was measured is kept in the journal, so run the same command again")]
    Write { path: String, source: std::io::Error },
}

/// Bytes of a document that are read.
const MAX_BYTES: u64 = 256 << 20;

/// The method before its version was written down.
fn first_method() -> u32 {
    1
}

impl Record {
    /// One that begins: a question without anything around it.
    pub fn new(version: u32, name: String, question: Question, started: u64) -> Self {
        Self {
            version,
            name,
            modelway: String::new(),
            method: modelway_tune::METHOD,
            question,
            settings: Vec::new(),
            units: BTreeMap::new(),
            service: Service::Unknown,
            load: Value::Null,
            machine: Machine::default(),
            started,
            ended: None,
            elapsed: 0.0,
            trials: Vec::new(),
            end: None,
            apply: None,
            left_out: Vec::new(),
        }
    }

    /// Reads a file.
    pub fn read(path: &std::path::Path) -> Result<Self, RecordError> {
        use std::io::Read;
        let failed = |source| RecordError::Read { path: path.display().to_string(), source };
        let mut text = Vec::new();
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)).map_err(failed)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks a document; `path` names it in errors.
    pub fn parse(text: &[u8], path: &str) -> Result<Self, RecordError> {
        let parsed: Self =
            serde_json::from_slice(text).map_err(|source| RecordError::Parse { path: path.to_owned(), source })?;
        let damaged = |problem: String| RecordError::Damaged { path: path.to_owned(), problem };
        parsed.question.check().map_err(|error| damaged(error.to_string()))?;
        let candidates = parsed.question.spec.space.len();
        let stray = parsed.trials.iter().find(|entry| entry.attempt.candidate >= candidates);
        match stray {
            Some(entry) => Err(damaged(format!(
                "trial {} has candidate {}, but there are only {candidates}",
                entry.attempt.index, entry.attempt.candidate
            ))),
            None => Ok(parsed),
        }
    }

    /// Writes beside and renames: a reader sees all of it or nothing.
    pub fn write(&self, path: &std::path::Path) -> Result<(), RecordError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| RecordError::Parse { path: path.display().to_string(), source })?;
        write_whole(path, &text).map_err(|source| RecordError::Write { path: path.display().to_string(), source })
    }

    /// The trials as the choice of the next one sees them.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.trials.iter().map(|entry| entry.attempt.clone()).collect()
    }

    /// The same as an earlier experiment to start from: settings of these parameters, in their order. Trials that lack one
    /// are left out.
    pub fn source(&self, parameters: &[&str]) -> Source {
        let each = self.trials.iter().filter(|entry| !entry.attempt.is_pending()).filter_map(|entry| {
            let texts = self.texts(entry.attempt.candidate);
            let settings = parameters.iter().map(|name| texts.get(*name).cloned()).collect::<Option<Vec<_>>>()?;
            Some(SourceTrial { settings, outcome: entry.attempt.outcome.clone() })
        });
        Source { name: self.name.clone(), trials: each.collect() }
    }

    /// Value of each parameter of a candidate, by name.
    pub fn texts(&self, candidate: Candidate) -> BTreeMap<String, String> {
        let settings = self.question.spec.space.settings(candidate).into_iter();
        settings.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }
}

/// Writes a file beside its place and renames it; what is no plain file, such as a device, is written where it is.
pub fn write_whole(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    if path.exists() && !path.is_file() {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = std::path::PathBuf::from(name);
    let written = std::fs::File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| std::fs::rename(&beside, path));
    if placed.is_err() {
        // Half a file is of no use; that it stays is the smaller trouble.
        let _left = std::fs::remove_file(&beside);
    }
    placed
}

impl Entry {
    /// A trial that begins.
    pub fn begin(attempt: Attempt, settings: BTreeMap<String, String>, why: Why, started: u64) -> Self {
        Self {
            name: String::new(),
            settings,
            why: Some(why),
            beside: Vec::new(),
            started,
            message: String::new(),
            log: Vec::new(),
            limits: BTreeMap::new(),
            generator_bound: Vec::new(),
            report: Value::Null,
            attempt,
        }
    }

    /// Whether it measured a candidate again.
    pub fn is_confirmation(&self) -> bool {
        self.attempt.purpose == Purpose::Confirm
    }
}

/// An outcome without the numbers that JSON cannot hold: they count as missing in any case.
#[must_use]
pub fn finite(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Measured(mut values) => {
            values.retain(|_, found| found.value.is_finite());
            for found in values.values_mut().filter(|found| !(found.variance.is_finite() && found.variance >= 0.0)) {
                found.variance = 0.0;
            }
            Outcome::Measured(values)
        }
        other => other,
    }
}
