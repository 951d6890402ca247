//! The conformance cases against the embedded API and, where there is one, a Kubernetes cluster.
#![expect(clippy::unwrap_used, reason = "tests")]

mod compare;
mod embedded_api;
mod probes;
mod real_api;
mod runner;
