//! The highest rate that meets the constraints, in few probes: a state machine that is told and asks.
//!
//! One user alone says whether the constraints can be met at all, and where to begin. Short probes then close in on the
//! limit by bisection in the logarithm of the rate, until the bracket is narrow. A long window certifies the result.

mod judge;
mod machine;

pub use judge::{Assessment, Judge, Verdict};
pub use machine::{Outcome, Probe, Search, Settings, Step};
