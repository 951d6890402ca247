//! HTTP router: sockets, pools, hold queue, config sources, metrics, stats. Every decision is made in `modelway_route`.
//!
//! The way of a request is in [`proxy`]; the way of the configuration is source -> [`routes::RouteState`] -> one
//! atomically swapped snapshot that each request loads once.

mod activity;
mod admin;
mod answer;
mod answered;
mod attempt;
mod body;
mod clock;
mod comeback;
mod config;
mod connection;
mod endpoint;
mod forward;
mod framing_guard;
mod headers;
mod held;
mod hold;
mod keep_alive;
mod lane;
mod listener;
mod meter;
mod options;
mod proxy;
mod record;
mod routes;
mod server;
mod source;
mod stats;
mod tunnel;
mod upstream;
mod view;
mod wait;

pub use config::{ConfigReport, Refused};
pub use modelway_route::RouteKey;
pub use options::{Limits, RouterOptions, Source};
pub use server::{Router, RouterError, run};
