//! The binary as its users run it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod commands;
mod doctor;
mod faults;
mod flows;
mod gpus;
mod harness;
mod kill;
mod load;
mod quickstart;
mod quiet;
mod scaling;
mod tune;
mod tuning;
