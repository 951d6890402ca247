//! Counting and judging, without clocks or sockets.

mod binomial;
mod blocks;
mod histogram;
mod tally;

pub use binomial::{lower_bound, requests_needed, upper_bound};
pub use blocks::{Blocks, Interval};
pub use histogram::{Counts, Summary, Times, merge, quantile_of};
pub use tally::{Answer, Measured, Misses, Second, Tally, add_misses};
