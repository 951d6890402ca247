//! What a planner is given besides the object it plans for.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use modelway_api::inference::ModelMount;

use crate::world::World;

/// Everything that a planner may look at.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub world: &'a World,
    pub settings: &'a Settings,
    /// Now, by the controller's clock.
    pub now: Timestamp,
    /// Fresh random bytes, for the one key that a plan may create.
    pub entropy: [u8; 16],
}

/// Choices of whoever runs the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `host:port` or `host/path` that images go to unless a version names its repository.
    pub default_registry: Option<String>,
    /// Modelway's own image, for builders, routers and the built-in server.
    pub image: String,
    /// Folders of hosts that may be published; none by default.
    pub allowed_host_paths: Vec<String>,
    /// Registry hosts (`host:port`) that speak HTTP without TLS.
    pub plain_http: Vec<String>,
    /// Longest time that a deleted job is held for its build.
    pub hold_job_limit: Duration,
    /// Router pods of an Inference that does not say.
    pub router_replicas: i32,
    /// `ClusterRole` that router pods get in their namespace; none where nothing is authorised.
    pub router_role: Option<String>,
    /// How models come into predictors that leave it open.
    pub model_mount: ModelMount,
    /// Whether the cluster keeps image volumes and its nodes can mount them; what `ModelMount::Auto` goes by.
    pub image_volumes: bool,
    /// Time between the routes' change and the removal of a predictor that they no longer name.
    pub retire_after: Duration,
    /// Namespace of the Service `morphling-db-manager`, to which clients of trials report.
    pub results_namespace: String,
    /// Its port.
    pub results_port: u16,
    /// `host:port` of the same, where names of Services cannot be looked up.
    pub results_address: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_registry: None,
            image: modelway_api::image(),
            allowed_host_paths: Vec::new(),
            plain_http: Vec::new(),
            hold_job_limit: Duration::from_mins(10),
            router_replicas: 1,
            router_role: None,
            model_mount: ModelMount::Auto,
            image_volumes: true,
            retire_after: Duration::from_secs(5),
            results_namespace: "morphling-system".to_owned(),
            results_port: 6_799,
            results_address: None,
        }
    }
}

impl Context<'_> {
    /// Time since `then`, zero when it lies ahead.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(then)).unwrap_or(Duration::ZERO)
    }

    /// Time until `after` has passed since `then`; `None` when it has.
    pub fn left(&self, then: Timestamp, after: Duration) -> Option<Duration> {
        after.checked_sub(self.since(then)).filter(|left| !left.is_zero())
    }
}
