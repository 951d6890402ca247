//! The router over real sockets on loopback, with scripted endpoints and clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod config;
mod drain;
mod forward;
mod framing;
mod hold;
mod kube_source;
mod retry;
mod split;
mod stats;
mod support;
mod timeouts;
