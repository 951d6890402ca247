//! Pushing and pulling against real and faulty registries, and against other tools.

#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod peers;
mod round_trip;
mod sources;
mod support;
