//! Finds the cheapest container spec that meets its objectives, in few stress tests.
//!
//! Pure: no I/O, no clock, no environment. What comes next is a function of what was asked and what was measured.

pub mod acquisition;
pub mod baseline;
pub mod belief;
pub mod experiment;
pub mod feasibility;
pub mod frontier;
pub mod gp;
pub mod history;
pub mod incumbent;
pub mod insight;
pub mod math;
pub mod recommend;
pub mod space;
pub mod spec;
pub mod start;
pub mod steps;
pub mod stop;
pub mod suggest;
pub mod warm;

/// Version of the method: raised whenever the same question and results may lead to another choice.
///
/// 1: the first. 2: untried steps from the best compete with what the model expects; a candidate that ran is judged by its
/// own record. 3: what runs now is measured again at the end.
pub const METHOD: u32 = 3;
