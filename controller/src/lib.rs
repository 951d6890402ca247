//! Controller shell: watch, gather, execute. What to do is decided in `modelway_plan`.

mod clock;
mod events;
mod execute;
mod informer;
mod kinds;
mod queue;
mod reconcile;
mod run;
mod store;

pub use modelway_plan::Settings;
pub use run::{ControllerError, ControllerOptions, run};
