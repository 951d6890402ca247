//! The conformance cases against the embedded API and, where there is one, a Kubernetes cluster.
#![expect(clippy::unwrap_used, reason = "tests")]

mod embedded_api;
mod real_api;
mod runner;
