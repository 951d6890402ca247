//! What is best, what must hold, and what things cost.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment looks for.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Objective {
    /// Which way is better, `maximize` when absent.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ObjectiveType>,
    /// The metric, `rate` when absent: good answers per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub objective_metric_name: Option<String>,
    /// What must hold, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub constraints: Vec<ObjectiveConstraint>,
    /// What things cost; the objective is then per cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveType {
    /// Less.
    Minimize,
    /// More.
    #[default]
    Maximize,
}

/// A metric with a limit.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = Rule::new("has(self.max) != has(self.min)").message("a constraint has either max or min")
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveConstraint {
    /// The metric, such as `latency.p95` or `errors`.
    #[schemars(length(min = 1, max = 253))]
    pub metric: String,
    /// At most this: `50ms`, `1%`, `0.01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub max: Option<String>,
    /// At least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub min: Option<String>,
}

/// Prices.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Price of one unit for an hour by resource: `cpu` a core, `memory` a GiB, others one piece.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 16))]
    pub per_hour: BTreeMap<String, String>,
    /// Price of a whole instance for an hour by its type, for pods whose `nodeSelector` has
    /// `node.kubernetes.io/instance-type`; added to what `perHour` comes to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub instance_types: BTreeMap<String, String>,
    /// Currency, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub unit: Option<String>,
}
