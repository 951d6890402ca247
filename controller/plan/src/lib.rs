//! Pure planner: observed world in, plan out.
//!
//! Every planner reads a [`World`] and returns a [`Plan`]; time and randomness are in the [`Context`]. A plan applied
//! and planned again is empty, whatever was applied in between by a planner that saw the same world.

pub mod build;
pub mod context;
pub mod disruption;
pub mod explain;
pub mod job_source;
pub mod json;
pub mod manifest;
pub mod model;
pub mod model_version;
pub mod mount;
pub mod percent;
pub mod plan;
pub mod pods;
pub mod predictor;
pub mod profiling;
pub mod publish;
pub mod refusal;
pub mod replicas;
pub mod resolve;
pub mod router;
pub mod routes;
pub mod scale;
pub mod serving;
mod serving_status;
pub mod source;
pub mod template;
pub mod world;

pub use context::{Context, Settings};
pub use plan::{Action, Event, Plan};
pub use world::{Key, Kind, World};
