//! CPU and memory limits of containers, by the best means that works where the platform runs.
//!
//! Control groups (v2, else v1) where one can be made below the platform's own; else whole cores and `RLIMIT_DATA`, which
//! need no rights at all. What is in force for a container is known before it starts, and the pod's status says it. A pod
//! may also ask for cores that another one does not have.

mod cores;
mod detect;
mod files;
mod group;
mod limiter;
mod own;
mod record;
mod resources;
mod share;
mod verdict;

pub use detect::LimitMeans;
pub use group::members;
pub use limiter::Limiter;
pub use record::sweep;
pub use verdict::{Enforced, LIMITS_ENFORCED, condition};
