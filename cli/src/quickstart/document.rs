//! What `quickstart --output json` prints: one document, additive.

use std::collections::BTreeMap;

use serde::Serialize;

/// The whole story in numbers.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub versions: Vec<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    pub arms: Vec<Arm>,
    /// How the grown predictor slept and woke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Better settings for that predictor; absent when nobody looked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
    /// By stage; `total` is the whole run.
    pub seconds: BTreeMap<&'static str, f64>,
    /// Largest sum over all processes of the platform; absent on a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// The platform's own process before any work; absent on a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_idle_rss_bytes: Option<u64>,
    /// URL of the Inference.
    pub endpoint: String,
    /// How the requests went there: `direct`, or `apiServer` where only the cluster's API server can be reached.
    pub path: &'static str,
    /// `fresh`, or `resumed` when the data folder or the namespace held earlier work.
    pub start: &'static str,
}

/// A predictor asleep, its users' burst, and asleep again.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// From the first request to the first answer, with no pod at the start.
    pub cold_start_ms: f64,
    /// Most requests that waited at once; absent where the routers' admin ports cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_max: Option<u64>,
    pub requests: u64,
    /// Requests that failed or were answered by another predictor.
    pub errors: u64,
    pub replicas: Vec<Curve>,
}

/// One moment of the curve.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Curve {
    /// Since the burst began.
    pub seconds: f64,
    pub desired: i32,
    pub ready: i32,
    pub answers_per_second: f64,
}

/// What the experiment found.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tuning {
    /// Settings that might have been tried.
    pub candidates: u32,
    /// How often some were: also measured again, and without those that the machine spoiled.
    pub trials: u32,
    /// What runs now, by parameter.
    pub baseline: BTreeMap<String, String>,
    /// What would be better, by parameter.
    pub recommended: BTreeMap<String, String>,
    /// By how much; absent when the baseline could not be measured.
    pub gain: Option<Gain>,
    /// Requests per second of the baseline and of what is recommended.
    pub baseline_rate: Option<f64>,
    pub recommended_rate: Option<f64>,
    /// File with the report for people; on a cluster the object that holds it.
    pub report: String,
    /// An earlier run found it.
    pub stored: bool,
}

impl Tuning {
    /// Whether nothing better was found than what runs now.
    pub fn is_best(&self) -> bool {
        self.baseline == self.recommended
    }
}

/// How much more a second, as a share of the baseline's: 0.5 is half as much again. With its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gain {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// A published model version.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub name: String,
    pub image: String,
    pub size_bytes: i64,
    /// From the job's end to the finished image, as this command saw them; absent when both were there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_from_job_end: Option<f64>,
}

/// What the users saw.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    pub requests: u64,
    pub errors: u64,
    /// Users by the arm they were on before the weights changed.
    pub users: BTreeMap<String, u64>,
    pub requests_by_arm: BTreeMap<String, u64>,
    /// Users seen on two arms without a weight change that moves them into the grown one.
    pub sticky_violations: u64,
    /// Users that the weight change moved into the grown arm.
    pub moved_on_reweight: u64,
}

/// One arm as its users saw it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arm {
    pub name: String,
    /// Share of answers with the true digit.
    pub accuracy: f64,
    pub latency_ms: Latency,
}

/// Whole responses, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
}
