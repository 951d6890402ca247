//! The server as a whole, over its in-process client.
#![expect(clippy::unwrap_used, reason = "tests")]

mod crash;
mod hostile;
mod restart;
mod smoke;
mod speed;
