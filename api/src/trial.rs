//! `Trial`: one stress test of one candidate, submitted by an experiment or alone.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{load::Load, objective::Objective, profiling_conditions::ProfilingCondition, schemas};

/// Longest name of a Trial: that of its client Job is a label, too.
pub const TRIAL_NAME_MAX: usize = 52;

/// What is tried, and how it is put to the test.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "morphling.kubedl.io",
    version = "v1alpha1",
    kind = "Trial",
    plural = "trials",
    category = "modelway",
    namespaced,
    status = "TrialStatus",
    derive = "PartialEq",
    annotation("helm.sh/resource-policy", "keep"),
    doc = "One stress test of one candidate.",
    validation = Rule::new("self.metadata.name.size() <= 52").message("metadata.name has at most 52 characters"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name is a DNS label that begins with a letter"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[-1:].type"),
    printcolumn(name = "Objective-Name", type_ = "string", json_path = ".status.trialResult.objectiveMetricsObserved[-1:].name"),
    printcolumn(name = "Objective-Value", type_ = "string", json_path = ".status.trialResult.objectiveMetricsObserved[-1:].value"),
    printcolumn(name = "Parameters", type_ = "string", json_path = ".spec.samplingResult"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.outcome.reason", priority = 1),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TrialSpec {
    /// The values that are tried, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub sampling_result: Vec<ParameterAssignment>,
    /// What is best, and what must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Body of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub request_template: Option<String>,
    /// A Job of your own that puts the service under load and reports what it measured; Modelway's load generator when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub client_template: Option<Value>,
    /// The service, as a `PodTemplate`: its pods are described under `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub service_pod_template: Option<Value>,
    /// Seconds until the service must be ready, 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub service_progress_deadline: Option<i32>,
    /// How Modelway's load generator works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}

/// Which part of the pod template a value goes to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Requests and limits of the containers, by the resource's name.
    #[default]
    Resource,
    /// An environment variable; its name is written in capitals.
    Env,
    /// An argument: `--name` or `name=` that is there gets the value, else the value is added at the end.
    Args,
    /// A label that the node must have, such as `node.kubernetes.io/instance-type`.
    #[serde(rename = "nodeSelector")]
    NodeSelector,
}

/// One value that is tried.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterAssignment {
    /// The parameter.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its value.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// Where it goes.
    #[serde(default)]
    pub category: Category,
}

/// A number that was measured.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// What was measured.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
    /// The number, in requests per second, seconds, or as a share.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub value: String,
    /// Its variance, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub variance: Option<String>,
}

/// Values, and what was measured with them.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialResult {
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tunable_parameters: Vec<ParameterAssignment>,
    /// What was measured; the objective's metric is the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub objective_metrics_observed: Vec<Metric>,
}

/// How far the test is, and what it measured.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialStatus {
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_result: Option<TrialResult>,
    /// `Ready`, then `Created`, `Pending`, `Running`, and one of `Succeeded`, `Failed` and `Killed`, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub conditions: Vec<ProfilingCondition>,
    /// When the test began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub start_time: Option<String>,
    /// When it ended and nothing of it was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub completion_time: Option<String>,
    /// The pod under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_pod: Option<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// By what the limits of the pod hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub limits: Option<String>,
    /// When the service was first ready, and the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub ready_time: Option<String>,
    /// What came of it; its objects go once this is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TrialOutcome>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What came of a test.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialOutcome {
    /// The condition that follows.
    #[serde(default)]
    pub state: TrialState,
    /// What kind of failure it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TrialFailure>,
    /// One stable word for the cause.
    #[schemars(length(max = 64))]
    #[serde(default)]
    pub reason: String,
    /// The cause for people.
    #[schemars(length(max = 2048))]
    #[serde(default)]
    pub message: String,
    /// Seconds from the beginning until it was known.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub seconds: i64,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TrialState {
    /// It measured.
    #[default]
    Succeeded,
    /// It did not.
    Failed,
    /// Somebody ended it.
    Killed,
}

/// Why a candidate did not measure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TrialFailure {
    /// It used more memory than it may.
    OutOfMemory,
    /// It ended by itself.
    Crash,
    /// No node can hold it, or no quota allows it.
    Unschedulable,
    /// It was not ready in time.
    StartTimeout,
    /// It ran, and met its objectives at no rate at all.
    ObjectiveUnmet,
    /// The machine or the test failed, not the candidate.
    Infrastructure,
}
