//! The conformance cases against the embedded API and a real control plane, and the clusters themselves.
#![expect(clippy::unwrap_used, reason = "tests")]

mod chart;
mod clusters;
mod compare;
mod conformance;
mod knative;
mod node;
mod probes;
mod real_api;
mod runner;
