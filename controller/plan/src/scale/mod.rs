//! How many pods a predictor should have: from the demand that its routers tell of, to a number with its reason.
//!
//! Everything here is pure. The caller follows the routers' stats into a [`Demand`], reads the [`Policy`] from the
//! predictor's `autoScale`, and calls [`decide()`] every [`TICK`], and at once when a request starts to wait; what one
//! decision leaves for the next is in [`Memory`]. The rules are those of Knative's autoscaler, with the differences
//! that `docs/scaling.md` lists.

use std::time::Duration;

mod decide;
mod demand;
mod history;
mod memory;
mod policy;
mod why;

pub use decide::{Decision, FIRST_PODS, decide};
pub use demand::{Demand, STALE, Sample};
pub use memory::Memory;
pub use policy::{Hints, MAX_REPLICAS, Policy, PolicyError};
pub use why::Why;

/// Time since an arbitrary zero of a monotonic clock, so that a wall clock that jumps cannot move a pod.
pub type Moment = Duration;

/// Time between two decisions.
pub const TICK: Duration = Duration::from_secs(2);
