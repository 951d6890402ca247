//! `RouteTable`: what the controller tells the routers of one `Inference`.
//!
//! The document is versioned and additive: a reader ignores fields that it does not know, and refuses a `version`
//! above [`ROUTE_TABLE_VERSION`]. `generation` only grows; a router refuses an older one within one object UID.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The newest document version that this release writes and reads.
pub const ROUTE_TABLE_VERSION: u32 = 1;

/// Arms, rules and limits of one entry service.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "modelway.io",
    version = "v1alpha1",
    kind = "RouteTable",
    plural = "routetables",
    shortname = "rt",
    category = "modelway",
    namespaced,
    printcolumn = r#"{"name":"Generation","type":"integer","jsonPath":".spec.generation"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RouteTableSpec {
    /// Document version, [`ROUTE_TABLE_VERSION`] today.
    pub version: u32,
    /// Grows with every change of the document.
    pub generation: i64,
    /// Name of the Inference that the table belongs to.
    #[schemars(length(max = 63))]
    pub inference: String,
    /// Changes whenever evidence from before must not be pooled with evidence from after (digests, templates, weights).
    pub epoch: i64,
    /// Salt of the assignment hash: the Inference's UID, plus the reshuffle counter.
    #[schemars(length(max = 128))]
    pub salt: String,
    /// The predictors that take traffic, at most 16.
    #[schemars(length(max = 16))]
    pub arms: Vec<Arm>,
    /// Where the unit key of a request comes from, first match wins; none = random per request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub sticky: Vec<UnitKey>,
    /// Requests that go to one arm whatever their unit, first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<Rule>,
    /// How long the router waits.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How much of the traffic may be retried.
    #[serde(default)]
    pub retry: RetryBudget,
    /// Bounds of the requests that wait for an endpoint.
    #[serde(default)]
    pub hold: HoldLimits,
    /// Adds `x-modelway-arm` in clear to responses.
    #[serde(default)]
    pub debug_headers: bool,
}

/// One predictor as the router sees it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arm {
    /// Predictor name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Raw weight; 0 never wins.
    #[schemars(range(max = 1_000_000))]
    pub weight: u32,
    /// What the router does with requests of this arm.
    #[serde(default)]
    pub state: ArmState,
    /// Service whose `EndpointSlice`s carry the endpoints (label `kubernetes.io/service-name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub service: Option<String>,
    /// Name of the `EndpointSlice` port that takes HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub port_name: Option<String>,
    /// Static endpoints `host:port`, for `modelway router --config FILE` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 256)))]
    pub endpoints: Vec<String>,
    /// Model image `repo@sha256:...` of the arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub model: Option<String>,
    /// Concurrent requests that one endpoint takes well, a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

/// What the router does with a request that was assigned to the arm.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ArmState {
    /// Forward; without a ready endpoint hold briefly, then fail over.
    #[default]
    Active,
    /// First replica is on its way: hold.
    Starting,
    /// Scaled to zero: hold and wake.
    Asleep,
    /// The controller gave up on it: fail over at once.
    Broken,
}

/// A place in a request that names the unit (user) it belongs to. Exactly one field is set.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitKey {
    /// Request header name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub header: Option<String>,
    /// Cookie name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub cookie: Option<String>,
    /// The client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_address: Option<bool>,
}

/// Sends matching requests to one arm.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// What a request must have; all given parts must hold.
    #[serde(rename = "match")]
    pub matches: RequestMatch,
    /// Arm name.
    #[schemars(length(max = 63))]
    pub predictor: String,
}

/// All given parts must hold.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMatch {
    /// Path prefix, at segment boundaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// Method, upper case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub method: Option<String>,
    /// A header with an exact value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderMatch>,
}

/// A header with an exact value.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HeaderMatch {
    /// Name of the header.
    #[schemars(length(max = 256))]
    pub name: String,
    /// Its whole value.
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// Milliseconds; 0 = off.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// Until a connection to an endpoint is up.
    pub connect_ms: u64,
    /// Until the first byte of the response.
    pub first_byte_ms: u64,
    /// Between two bytes of the response.
    pub idle_ms: u64,
    /// For the whole response.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 1_000, first_byte_ms: 300_000, idle_ms: 60_000, total_ms: 0 }
    }
}

/// How much of the traffic may be retried.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryBudget {
    /// Percent of the requests that may be retried.
    pub budget_percent: u32,
    /// Retries per second that are always allowed.
    pub min_per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { budget_percent: 20, min_per_second: 3 }
    }
}

/// Bounds of the requests that wait for an endpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HoldLimits {
    /// Most requests held at once.
    pub max_requests: u32,
    /// Most bytes held at once.
    pub max_bytes: u64,
    /// Longest wait of one request.
    pub max_age_ms: u64,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { max_requests: 1_000, max_bytes: 64 << 20, max_age_ms: 300_000 }
    }
}
