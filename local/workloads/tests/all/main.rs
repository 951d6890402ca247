//! The controllers against the embedded API server; each test plays the node by writing pod statuses.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod deployments;
mod jobs;
mod services;
mod volumes;
