//! The controller against the embedded API server; the tests play the workload controllers and the kubelet.

#![expect(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod definitions;
mod faults;
mod namespaces;
mod platform;
mod publishing;
mod refusals;
mod replicas;
mod serving;
mod storms;
mod tuning;
