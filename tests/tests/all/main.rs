//! The conformance cases against the embedded API.
#![expect(clippy::unwrap_used, reason = "tests")]

mod embedded_api;
