//! Process node: pods as local processes.
//!
//! It does what a kubelet does, over [`kube::Client`] only: it takes pods, runs their containers as processes of this machine
//! under a [`shim`], probes them, and writes their status. Nothing here needs root.

mod address;
mod claim;
mod context;
mod events;
mod holder;
mod housekeeping;
pub mod images;
mod layout;
mod limits;
mod listeners;
pub mod logs;
mod node;
mod options;
mod pod;
mod proc;
mod registration;
mod schedule;
pub mod shim;
mod sweep;

pub use holder::holder_of;
pub use limits::{LIMITS_ENFORCED, LimitMeans};
pub use node::{NodeError, run};
pub use options::{NodeOptions, PodCidr, Timing};
pub use pod::backoff::BackoffRule;
pub use pod::launch::{RUN_AS_PROCESS, TERMINATION_LOG};
pub use sweep::{DATA_MARK, POD_MARK, sweep};
