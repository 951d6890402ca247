//! The Helm chart: what it renders, what it refuses, and what it does on a real cluster.
#![expect(clippy::panic, clippy::print_stderr, reason = "tests that fail or skip say why")]

mod helm;
mod installs;
mod metrics;
mod rights;
mod rules;
mod templates;
mod values;
