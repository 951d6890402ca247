//! What an experiment recommends, and what it learned on the way. Numbers are text, exact to the last digit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::ParameterAssignment;

/// What to run, and how sure that is. Numbers are text, exact to the last digit.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The values.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub parameters: Vec<ParameterAssignment>,
    /// A patch that sets them, in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub patch: Option<String>,
    /// The values that it is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub baseline: Vec<ParameterAssignment>,
    /// By which factor it is better than the baseline: 1.5 is half as much again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Estimate>,
    /// Probability that it runs and every constraint holds.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub feasibility: String,
    /// Its objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Estimate>,
    /// Its cost per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cost: Option<String>,
    /// Whether it is sure enough to be run without another look.
    #[serde(default)]
    pub confident: bool,
}

/// A number with its 95 % interval.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Middle.
    #[schemars(length(max = 32))]
    pub estimate: String,
    /// Lower end.
    #[schemars(length(max = 32))]
    pub low: String,
    /// Upper end.
    #[schemars(length(max = 32))]
    pub high: String,
}

/// How much a parameter matters.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterImportance {
    /// The parameter.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Share of the variance that it explains by itself.
    #[schemars(length(max = 32))]
    pub alone: String,
    /// The same with all that it does together with others.
    #[schemars(length(max = 32))]
    pub total: String,
}
