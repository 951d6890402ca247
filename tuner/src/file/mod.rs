//! `tune.yaml`: what is tuned, over which parameters, for what, and how it is measured.
//!
//! The types here are the file word for word; [`plan`] makes of them what is carried out. Unknown fields are refused.

mod build;
pub(crate) mod common;
pub(crate) mod cost;
mod error;
mod load;
mod objective;
pub(crate) mod parameters;
pub mod quantity;
mod scalar;
pub mod template;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use build::{Plan, Room, ServicePlan, plan};
pub use error::{FileError, nearest, with_hint};
pub use load::LoadPlan;
pub use objective::{metric_of, unit};
pub use scalar::{Scalar, Span};

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TuneFile {
    #[serde(default)]
    pub name: Option<String>,
    pub service: ServiceFile,
    pub parameters: Vec<ParameterFile>,
    /// What runs now, to compare with.
    #[serde(default)]
    pub baseline: Option<BTreeMap<String, Scalar>>,
    #[serde(default)]
    pub objective: ObjectiveFile,
    #[serde(default)]
    pub constraints: Vec<String>,
    #[serde(default)]
    pub cost: Option<CostFile>,
    #[serde(default)]
    pub load: LoadFile,
    #[serde(default)]
    pub algorithm: Option<String>,
    #[serde(default)]
    pub stop: StopFile,
    #[serde(default)]
    pub budget: BudgetFile,
    #[serde(default)]
    pub confirm: ConfirmFile,
    /// Records of earlier experiments.
    #[serde(default)]
    pub warm_start: Vec<PathBuf>,
    #[serde(default)]
    pub seed: Option<u64>,
}

/// What is tuned: a command, or the URL of a server with a command that tells it what to change to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceFile {
    pub command: Vec<String>,
    pub env: BTreeMap<String, Scalar>,
    pub directory: Option<PathBuf>,
    pub url: Option<String>,
    pub restart: Vec<String>,
    /// Path that answers well once the service is ready; else the load's own first request says so.
    pub ready: Option<String>,
    pub start_timeout: Option<Span>,
    pub stop_grace: Option<Span>,
}

/// One parameter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParameterFile {
    pub name: String,
    #[serde(default)]
    pub category: Category,
    #[serde(rename = "type", alias = "parameterType")]
    pub kind: String,
    #[serde(default)]
    pub min: Option<Scalar>,
    #[serde(default)]
    pub max: Option<Scalar>,
    #[serde(default)]
    pub step: Option<Scalar>,
    #[serde(default)]
    pub list: Vec<Scalar>,
}

/// Where a parameter goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Category {
    /// Into the command line.
    #[default]
    Args,
    /// Into the environment.
    Env,
    /// `cpu` or `memory`.
    Resource,
}

impl Category {
    /// As the file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Env => "env",
            Self::Resource => "resource",
        }
    }
}

/// What is best.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ObjectiveFile {
    pub metric: Option<String>,
    pub goal: Option<GoalFile>,
    pub per_cost: Option<bool>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GoalFile {
    Maximize,
    Minimize,
}

/// What an hour costs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CostFile {
    pub currency: Option<String>,
    /// Whatever is chosen.
    pub base: f64,
    /// For each unit of a parameter that is a number: a core, a GiB of `memory`.
    pub per_hour: BTreeMap<String, f64>,
    /// For each value of a parameter.
    pub values: BTreeMap<String, BTreeMap<String, f64>>,
}

/// How load is sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoadFile {
    pub target: TargetKind,
    pub path: Option<String>,
    pub method: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
    pub body_file: Option<PathBuf>,
    pub folder: Option<PathBuf>,
    pub columns: Option<PathBuf>,
    pub expect_status: Option<String>,
    pub expect_body: Option<String>,
    pub model: Option<String>,
    pub prompt: Option<String>,
    pub max_tokens: Option<u64>,
    pub stream: Option<bool>,
    pub batch: Option<u64>,
    pub shapes: BTreeMap<String, Vec<u64>>,
    pub arrival: ArrivalKind,
    pub rate: Option<f64>,
    pub users: Option<u64>,
    pub think: Option<Span>,
    pub rate_search: bool,
    pub highest_rate: Option<f64>,
    pub probe: Option<Span>,
    pub warmup: Option<Span>,
    pub window: Option<Span>,
    pub timeout: Option<Span>,
    pub connections: Option<usize>,
    pub threads: Option<usize>,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TargetKind {
    #[default]
    #[serde(rename = "http")]
    Http,
    #[serde(rename = "openai")]
    Openai,
    #[serde(rename = "inference-protocol", alias = "v2")]
    InferenceProtocol,
}

/// When requests come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ArrivalKind {
    #[default]
    Poisson,
    Constant,
    Closed,
}

/// When the search ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StopFile {
    pub max_trials: Option<usize>,
    pub max_failed_trials: Option<usize>,
    pub expected_improvement: Option<f64>,
    pub rounds: Option<usize>,
}

/// What may be used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BudgetFile {
    pub duration: Option<Span>,
    pub cost: Option<f64>,
}

/// What is measured again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConfirmFile {
    pub top: Option<usize>,
    pub window: Option<Span>,
}
