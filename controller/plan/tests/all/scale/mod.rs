//! The autoscaler on loads over time.

mod laws;
pub mod play;
mod tables;
pub mod trace;
