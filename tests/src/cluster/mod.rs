//! A real Kubernetes for tests, built from Go modules and run on this machine alone (`tests/cluster`).
//!
//! A guard process owns everything that a cluster consists of, and ends it when the test process ends, however that
//! happens. Tests of one process share the cluster of a level: [`shared()`].

mod audit;
mod error;
mod facts;
mod faults;
mod guard;
mod handle;
mod nodes;
mod shared;
mod volumes;

pub use audit::Request;
pub use error::Error;
pub use faults::Component;
pub use guard::{Level, Options};
pub use handle::{Cluster, Registry};
pub use nodes::BUSYBOX;
pub use shared::{own, shared};
