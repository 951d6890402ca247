//! The controller against the embedded API server; the tests play the workload controllers and the kubelet.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod platform;
mod publishing;
mod serving;
