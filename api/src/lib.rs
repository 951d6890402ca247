//! Kinds, wire documents, labels, reasons and conditions of Modelway; no I/O.

pub mod access;
pub mod bytes;
pub mod conditions;
pub mod crds;
pub mod duration;
pub mod inference;
pub mod labels;
pub mod load;
pub mod model;
pub mod model_version;
pub mod names;
pub mod objective;
pub mod profiling_conditions;
pub mod profiling_experiment;
pub mod reason;
pub mod recommendation;
pub mod route_table;
mod schemas;
pub mod stats;
pub mod trial;

pub use conditions::Condition;
pub use crds::{crd_yaml, crds};
pub use inference::{Inference, InferenceSpec, InferenceStatus};
pub use model::{Model, ModelSpec, ModelStatus};
pub use model_version::{ModelVersion, ModelVersionSpec, ModelVersionStatus};
pub use profiling_experiment::{ProfilingExperiment, ProfilingExperimentSpec, ProfilingExperimentStatus};
pub use reason::Reason;
pub use route_table::{RouteTable, RouteTableSpec};
pub use trial::{Trial, TrialSpec, TrialStatus};

/// Modelway's own container image of this release; the process node runs it as its own executable.
pub const IMAGE: &str = concat!("modelway:", env!("CARGO_PKG_VERSION"));

/// [`IMAGE`] as an owned string, for manifests.
pub fn image() -> String {
    IMAGE.to_owned()
}

/// Server-side apply field manager and `app.kubernetes.io/managed-by` of everything that Modelway writes.
pub const MANAGER: &str = "modelway";
