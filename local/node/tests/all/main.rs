//! The node against the embedded API server, with shell commands as containers. Needs neither root nor network.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod crash;
mod lifecycle;
mod limits;
mod network;
mod platform;
mod roles;
mod scheduling;
mod surroundings;
