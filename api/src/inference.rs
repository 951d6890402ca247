//! `Inference`: predictors behind one address, with the traffic split between them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    conditions::Condition,
    route_table::{RequestMatch, UnitKey},
    schemas,
};

/// Most predictors that one Inference has.
pub const MAX_PREDICTORS: usize = 16;

/// Predictors and the traffic between them.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "serving.kubedl.io",
    version = "v1alpha1",
    kind = "Inference",
    plural = "inferences",
    shortname = "inf",
    category = "modelway",
    namespaced,
    status = "InferenceStatus",
    derive = "PartialEq",
    annotation("helm.sh/resource-policy", "keep"),
    doc = "Predictors behind one address, with the traffic split between them.",
    validation = Rule::new("self.metadata.name.size() <= 40").message("metadata.name has at most 40 characters"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name is a DNS label that begins with a letter"),
    validation = Rule::new("self.spec.predictors.all(p, self.metadata.name.size() + p.name.size() <= 62)").message("metadata.name and a predictor's name have at most 62 characters together"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.replicas"),
    printcolumn(name = "Split", type_ = "string", json_path = ".status.split"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.inferenceEndpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self.predictors.all(p, has(p.template) || (has(self.framework) && self.framework == 'ONNX' && (has(p.model) || has(p.modelVersion))))").message("a predictor needs a template, or framework ONNX and a model or modelVersion"),
    validation = Rule::new("!has(self.traffic) || !has(self.traffic.rules) || self.traffic.rules.all(r, self.predictors.exists(p, p.name == r.predictor))").message("traffic.rules name a predictor that does not exist")
)]
#[serde(rename_all = "camelCase")]
pub struct InferenceSpec {
    /// What serves the models. `ONNX` without a template runs the built-in server; the others need a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<Framework>,
    /// What takes the traffic, at most 16.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub predictors: Vec<Predictor>,
    /// How requests find their predictor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// The router's own pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterSpec>,
    /// Leaves everything as it is and only reports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A model server by name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Framework {
    /// TensorFlow Serving.
    TFServing,
    /// NVIDIA Triton.
    Triton,
    /// Seldon's server.
    MLServer,
    /// ONNX: the built-in server, or one's own.
    #[serde(rename = "ONNX")]
    Onnx,
    /// The large language model server.
    #[serde(rename = "vLLM")]
    Vllm,
    /// Anything else.
    Custom,
}

/// One arm: a model, the pods that serve it, its share of the traffic.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = Rule::new("self.name != 'router'").message("a predictor may not be called router"),
    validation = Rule::new("!(has(self.model) && has(self.modelVersion))").message("at most one of model and modelVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct Predictor {
    /// Name within the Inference.
    #[schemars(length(min = 1, max = 61), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Name of the `ModelVersion` to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub model_version: Option<String>,
    /// A version found by the Model's name instead of by its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelReference>,
    /// Where the containers find the model, `/kubedl-model/<version>` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 1024), regex(pattern = r"^/"))]
    pub model_path: Option<String>,
    /// How the model's files come into the pods, `Auto` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_mount: Option<ModelMount>,
    /// Secret with registry credentials (`kubernetes.io/dockerconfigjson`) for pulling the model image; the version's
    /// `registrySecret` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub pull_secret: Option<String>,
    /// Number of pods, 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Share of the traffic against the other predictors' weights, 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub traffic_weight: Option<i32>,
    /// Another name for `trafficWeight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub traffic_percentage: Option<i32>,
    /// Pod template of the predictor, as in a Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub template: Option<Value>,
    /// Lets the number of pods follow the load; `replicas` is then where it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scale: Option<AutoScale>,
    /// How the server groups requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batching: Option<Batching>,
}

impl Predictor {
    /// The raw weight: `trafficWeight`, else its alias, else 100.
    pub fn weight(&self) -> u32 {
        let given = self.traffic_weight.or(self.traffic_percentage);
        given.map_or(100, |weight| u32::try_from(weight).unwrap_or(0))
    }
}

/// How the files of a model image come into a pod.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ModelMount {
    /// An image volume where the cluster can mount one, else `Pull`. Decided when the predictor's Deployment is made.
    #[default]
    Auto,
    /// An image volume: the node pulls and shares the image.
    ImageVolume,
    /// An init container that pulls, verifies and unpacks the image into an emptyDir of the pod.
    Pull,
}

/// A version by the Model's name and one way to choose.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = Rule::new("[has(self.alias), has(self.job), has(self.latest) && self.latest].filter(x, x).size() == 1").message("exactly one of alias, job and latest: true is needed")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelReference {
    /// Name of the Model.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// The version that this alias of the Model names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub alias: Option<String>,
    /// The version that this training job makes; the predictor waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub job: Option<String>,
    /// The newest finished version, and each newer one once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<bool>,
}

/// How a predictor follows its load: between `minReplicas` and `maxReplicas`, from what its routers count.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas").message("minReplicas is at most maxReplicas"),
    validation = Rule::new("!has(self.maxReplicas) || self.maxReplicas >= 1").message("maxReplicas is at least 1")
)]
#[serde(rename_all = "camelCase")]
pub struct AutoScale {
    /// Fewest pods, 1 when absent; 0 lets the predictor sleep while nobody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_replicas: Option<i32>,
    /// Most pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_replicas: Option<i32>,
    /// A scaler of somebody else, such as `{"kind": "HorizontalPodAutoscaler", "name": "..."}` or a KEDA
    /// `ScaledObject`: the number of pods is left to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub auto_scaler: Option<Value>,
    /// What is counted, `Concurrency` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<ScaleMetric>,
    /// How much of it one pod takes when it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Share of `target` that a pod should carry, 0.7 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// Time over which the demand is averaged, `60s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub window: Option<String>,
    /// Time over which a burst is noticed, a tenth of `window` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub panic_window: Option<String>,
    /// Time that a lower number must have been enough before pods go, `0s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub scale_down_delay: Option<String>,
    /// Time without demand after the window before the last pod goes, `30s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub scale_to_zero_grace: Option<String>,
    /// Most pods at once as a multiple of those there are: 1000 when absent, 2 for pods with GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_scale_up_rate: Option<f64>,
}

/// What an autoscaled predictor is measured by.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ScaleMetric {
    /// Requests that are being answered or wait, on average over time.
    #[default]
    Concurrency,
    /// Requests that arrive in a second.
    RequestsPerSecond,
}

/// How the server groups requests; the built-in server obeys, other servers have their own settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batching {
    /// Most requests in one batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub batch_size: Option<i32>,
    /// Longest wait for a full batch, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub timeout_seconds: Option<i32>,
    /// Longest wait for a full batch, such as `2ms`; wins over `timeoutSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub timeout: Option<String>,
}

/// How requests find their predictor.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// Where the key of a user comes from, first match wins; a user stays on one predictor. None: random per request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub sticky: Vec<UnitKey>,
    /// Requests that go to one predictor whatever the weights, first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub rules: Vec<TrafficRule>,
    /// How long the router waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TrafficTimeouts>,
    /// Bounds of the requests that wait for a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<TrafficHold>,
    /// Names the predictor in a response header, `x-modelway-arm`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug_headers: bool,
}

/// Sends matching requests to one predictor.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficRule {
    /// What a request must have; all given parts must hold.
    #[serde(rename = "match")]
    pub matches: RequestMatch,
    /// Name of the predictor.
    #[schemars(length(min = 1, max = 61))]
    pub predictor: String,
}

/// Durations such as `500ms` or `5m`; `0` turns one off.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficTimeouts {
    /// Until a connection to a pod is up, `1s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub connect: Option<String>,
    /// Until the first byte of the response, `300s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub first_byte: Option<String>,
    /// Between two bytes of the response, `60s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub idle: Option<String>,
    /// For the whole response, off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub total: Option<String>,
}

/// Bounds of the requests that a router keeps while their predictor starts or wakes; more are answered with 503.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficHold {
    /// Most requests at once in one router, 1000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_requests: Option<u32>,
    /// Most bytes of their bodies together, such as `64Mi` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub max_bytes: Option<String>,
    /// Longest wait of one request, `300s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub max_age: Option<String>,
}

/// The router's own pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterSpec {
    /// Number of router pods; the platform's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: Option<i32>,
    /// Resources of the router's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub resources: Option<Value>,
    /// Image of the router; this release's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
}

/// Where the Inference answers, and what each predictor does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InferenceStatus {
    /// URL that takes the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub inference_endpoint: Option<String>,
    /// Each predictor of the spec, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub predictor_statuses: Vec<PredictorStatus>,
    /// Ready and wanted pods of all predictors, such as `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub replicas: Option<String>,
    /// Percents of the traffic in the order of the predictors, such as `90/10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub split: Option<String>,
    /// Generation of the route table that the routers should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_generation: Option<i64>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` and its parts: `ModelReady`, `ReplicasReady`, `RoutesReady`; `Progressing`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// What one predictor does.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredictorStatus {
    /// Name of the predictor.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Pods there are.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that can take traffic.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods there should be.
    #[serde(default)]
    pub desired_replicas: i32,
    /// Why there should be that many, for a predictor that follows its load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub scale_reason: Option<String>,
    /// Service of the predictor, `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub endpoint: Option<String>,
    /// Share of the traffic; all sum to 100 once there are routes.
    #[serde(default)]
    pub traffic_percent: i32,
    /// `ModelVersion` that the spec resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub model_version: Option<String>,
    /// Digest of the model that takes traffic now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub model_digest: Option<String>,
    /// Why it is not ready, empty when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
}
