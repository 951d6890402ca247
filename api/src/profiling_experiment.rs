//! `ProfilingExperiment`: looks for the best container spec in a handful of trials.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    load::Load,
    objective::Objective,
    profiling_conditions::ProfilingCondition,
    recommendation::{ParameterImportance, Recommendation},
    schemas,
    trial::{Category, TrialResult},
};

/// Most trials of one experiment.
pub const MAX_TRIALS: i32 = 500;

/// What is tuned, what is best, and what it may cost to find out.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "morphling.kubedl.io",
    version = "v1alpha1",
    kind = "ProfilingExperiment",
    plural = "profilingexperiments",
    shortname = "pe",
    category = "modelway",
    namespaced,
    status = "ProfilingExperimentStatus",
    derive = "PartialEq",
    annotation("helm.sh/resource-policy", "keep"),
    doc = "Looks for the best container spec in a handful of trials.",
    validation = Rule::new("self.metadata.name.size() <= 40").message("metadata.name has at most 40 characters"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name is a DNS label that begins with a letter"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[-1:].type"),
    printcolumn(name = "Trials", type_ = "integer", json_path = ".status.trialsTotal"),
    printcolumn(name = "Objective-Name", type_ = "string", json_path = ".status.currentOptimalTrial.objectiveMetricsObserved[-1:].name"),
    printcolumn(name = "Optimal-Objective-Value", type_ = "string", json_path = ".status.currentOptimalTrial.objectiveMetricsObserved[-1:].value"),
    printcolumn(name = "Optimal-Parameters", type_ = "string", json_path = ".status.currentOptimalTrial.tunableParameters"),
    printcolumn(name = "Report", type_ = "string", json_path = ".status.report", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("has(self.servicePodTemplate) != has(self.inferenceRef)").message("either servicePodTemplate or inferenceRef is needed")
)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingExperimentSpec {
    /// What may be set, by the part of the pod template that it goes to.
    #[schemars(length(min = 1, max = 16))]
    pub tunable_parameters: Vec<ParameterCategory>,
    /// What is best, and what must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// How candidates are chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Trials at most, 20 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub max_num_trials: Option<i32>,
    /// Trials at once, 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub parallelism: Option<i32>,
    /// Trials that may fail before the experiment does; failures of the machine do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub max_failed_trials: Option<i32>,
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
    /// Seconds until the service of a trial must be ready, 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub service_progress_deadline: Option<i32>,
    /// How Modelway's load generator works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// What the experiment may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// When little more is to be gained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRule>,
    /// Measures the best again before one is recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// Earlier experiments in the namespace over the same parameters, to start from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub warm_start: Vec<WarmStart>,
    /// A predictor to tune: its pod template is the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_ref: Option<InferenceReference>,
}

/// Parameters that go to the same part of the pod template.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterCategory {
    /// The part.
    #[serde(default)]
    pub category: Category,
    /// The parameters.
    #[schemars(length(min = 1, max = 32))]
    pub parameters: Vec<ParameterSpec>,
}

/// A parameter and its values.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterSpec {
    /// Its name: a resource, a variable, an argument.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What its values are.
    #[serde(default)]
    pub parameter_type: ParameterType,
    /// Its values.
    #[serde(default)]
    pub feasible_space: FeasibleSpace,
}

/// What values are.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Numbers of a range.
    Double,
    /// Whole numbers of a range.
    Int,
    /// A list of numbers or quantities.
    #[default]
    Discrete,
    /// A list of words.
    Categorical,
}

impl ParameterType {
    /// The word in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Int => "int",
            Self::Discrete => "discrete",
            Self::Categorical => "categorical",
        }
    }
}

/// Values: a list, or a range with steps.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeasibleSpace {
    /// Highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub max: Option<String>,
    /// Lowest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub min: Option<String>,
    /// The values themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 1024)))]
    pub list: Vec<String>,
    /// Distance between values; 1, or a tenth of a wide range, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub step: Option<String>,
}

/// How candidates are chosen.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Algorithm {
    /// The way, `BayesianOpt` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm_name: Option<AlgorithmName>,
    /// `seed` is known; others are kept without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub algorithm_settings: Vec<AlgorithmSetting>,
}

/// A way to choose candidates.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AlgorithmName {
    /// By what the trials so far teach.
    #[default]
    BayesianOpt,
    /// Another name of `BayesianOpt`.
    #[serde(rename = "bayesian")]
    Bayesian,
    /// Another name of `BayesianOpt`.
    #[serde(rename = "bo")]
    Bo,
    /// At random.
    #[serde(rename = "random")]
    Random,
    /// One after the other.
    #[serde(rename = "grid")]
    Grid,
    /// Evenly spread.
    #[serde(rename = "sobol")]
    Sobol,
}

/// A setting of the algorithm.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlgorithmSetting {
    /// Its name.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its value.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// What an experiment may use.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Time, such as `2h`; trials that run then are ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub duration: Option<String>,
    /// Money, in the unit of `objective.cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cost: Option<String>,
}

/// When to stop early.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StopRule {
    /// Ends the search when three rounds in a row promise less than this share of the best, 0.01 when absent; 0 never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub expected_improvement: Option<f64>,
}

/// Measuring again.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Confirm {
    /// How many of the best, 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 20))]
    pub top: Option<i32>,
    /// Time that is measured then, that of the load when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub window: Option<String>,
}

/// An earlier experiment.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WarmStart {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub experiment: String,
}

/// A predictor.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InferenceReference {
    /// Name of the Inference.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// Name of the predictor, the first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 61))]
    pub predictor: Option<String>,
    /// What becomes of the recommendation, `Never` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Apply>,
}

/// What becomes of a recommendation.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Apply {
    /// It stays in the experiment's status.
    #[default]
    Never,
    /// The Inference carries it as an annotation.
    Annotate,
}

/// How far the experiment is, and what it found.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingExperimentStatus {
    /// `Ready`, then `Created`, `Running`, and one of `Succeeded` and `Failed`, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub conditions: Vec<ProfilingCondition>,
    /// The best trial so far that meets the constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_optimal_trial: Option<TrialResult>,
    /// Every trial that measured, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub trial_result_list: Vec<TrialResult>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub completion_time: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub start_time: Option<String>,
    /// Trials at work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub running_trial_list: Vec<String>,
    /// Trials that wait for their service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub pending_trial_list: Vec<String>,
    /// Trials that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub failed_trial_list: Vec<String>,
    /// Trials that measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub succeeded_trial_list: Vec<String>,
    /// Trials that were ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub killed_trial_list: Vec<String>,
    /// Number of all trials.
    #[serde(default)]
    pub trials_total: i32,
    /// Number of those that measured.
    #[serde(default)]
    pub trials_succeeded: i32,
    /// Number of those that were ended.
    #[serde(default)]
    pub trials_killed: i32,
    /// Number of those that wait.
    #[serde(default)]
    pub trials_pending: i32,
    /// Number of those at work.
    #[serde(default)]
    pub trials_running: i32,
    /// Number of those that failed.
    #[serde(default)]
    pub trials_failed: i32,
    /// Number of candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<i32>,
    /// Candidates that were left out before the first trial: no node has as much as they ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<i32>,
    /// What the largest nodes had of the tuned resources when the experiment began; empty where it could not be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub node_sizes: Vec<BTreeMap<String, String>>,
    /// What to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// Trials that no other one beats in cost, objective and constraints, in rising order of cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub pareto: Vec<TrialResult>,
    /// How much each parameter matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub importance: Vec<ParameterImportance>,
    /// Where the report is, such as `configmap/tune-report`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub report: Option<String>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
