//! Laws of the search, and how many trials it needs on measured tables.

#![expect(clippy::unwrap_used, reason = "tests")]

mod experiment;
mod laws;
mod numbers;
mod real_service;
#[path = "../../examples/bench/tables.rs"]
mod tables;
#[path = "../../examples/bench/task.rs"]
mod task;
