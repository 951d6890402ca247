//! The router over real sockets on loopback, with scripted endpoints and clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod config;
mod drain;
mod forward;
mod framing;
mod hold;
mod keep_alive;
mod kube_source;
mod pace;
mod retry;
mod split;
mod stats;
mod support;
mod timeouts;
