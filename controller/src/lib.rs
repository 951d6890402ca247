//! Controller shell: watch, gather, execute. What to do is decided in `modelway_plan`.

mod admin;
mod blocked;
mod capabilities;
mod clock;
mod definitions;
mod election;
mod events;
mod execute;
mod health;
mod informer;
mod jitter;
mod kinds;
mod leadership;
mod lease;
mod meter;
mod metrics;
mod namespaces;
mod nodes;
mod queue;
mod reconcile;
mod results;
mod run;
mod scaling;
mod served;
mod store;
mod trim;
mod tuning_report;

pub use capabilities::image_volumes;
pub use election::LeaderElection;
pub use informer::resource;
pub use lease::Timing;
pub use modelway_plan::Settings;
pub use run::{ControllerError, ControllerOptions, run};
pub use scaling::{Heard, follow_router};
