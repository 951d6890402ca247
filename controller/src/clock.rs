//! The one place that reads the wall clock.

use k8s_openapi::jiff::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    Timestamp::now()
}
