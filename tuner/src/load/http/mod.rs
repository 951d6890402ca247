//! The little of HTTP/1.1 that a load generator needs, without sockets.

mod chunked;
mod request;
mod response;

pub use request::{RequestPlan, Scratch};
pub use response::{Malformed, Progress, ResponseParser};
