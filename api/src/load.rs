//! How Modelway's load generator tests a service.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is sent, and how fast.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = Rule::new("!has(self.rateSearch) || !self.rateSearch || (!has(self.rate) && !has(self.users))").message("rateSearch finds the rate: leave out rate and users"),
    validation = Rule::new("!has(self.users) || !has(self.arrival) || self.arrival == 'Closed'").message("users go with arrival: Closed"),
    validation = Rule::new("!has(self.arrival) || self.arrival != 'Closed' || has(self.users)").message("arrival: Closed needs users"),
    validation = Rule::new("!has(self.think) || has(self.users)").message("think is what users do: give users, too")
)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// What is spoken, `http` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LoadTarget>,
    /// Path of the requests, `/` when absent; for `inference-protocol` that of the model, `/v2/models/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/"))]
    pub path: Option<String>,
    /// Bodies of the requests; `requestTemplate` is one for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads: Option<Payloads>,
    /// When requests are sent, `Poisson` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// Requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Users that wait for their answers, with `arrival: Closed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub users: Option<u32>,
    /// How long a user thinks between an answer and its next request, on average: the times are exponential. None when
    /// absent; users that never think keep step with a server's batches, and its speed then hangs on how they fell into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub think: Option<String>,
    /// Finds the highest rate at which the constraints on times hold; needs one. What is asked for when neither `rate`
    /// nor `users` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_search: Option<bool>,
    /// Time of load before anything is measured, `15s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub warmup: Option<String>,
    /// Time that is measured, `60s` when absent; the probes of a search are a quarter of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub window: Option<String>,
    /// Percentile of the latency that bounds a search when no constraint names one, `p95` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), regex(pattern = r"^p[0-9]{1,2}(\.[0-9]{1,3})?$"))]
    pub percentile: Option<String>,
    /// `openai`: name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub model: Option<String>,
    /// `openai`: tokens that are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// `inference-protocol`: rows of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub batch: Option<u32>,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadTarget {
    /// Any HTTP/1.1.
    #[default]
    Http,
    /// Completions as `OpenAI` has them, streamed.
    Openai,
    /// Open Inference Protocol V2.
    InferenceProtocol,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Arrival {
    /// Like independent users.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
    /// A number of users, each of which waits for its answer.
    Closed,
}

/// Bodies of requests.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payloads {
    /// `ConfigMap` whose entries are the bodies, in turn.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
}
