//! Planners against a simulated world: flows, and the laws that hold for every order of events.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod laws;
mod profiling;
mod profiling_bench;
mod profiling_explain;
mod profiling_room;
mod profiling_trial;
mod publishing;
mod scale;
mod scaling;
mod serving;
mod simulation;
