//! The router's two clocks: monotonic time since the first use, and the wall clock for names of requests.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Time since the first call, the origin that the deciders see.
pub fn now() -> Duration {
    ORIGIN.elapsed()
}

/// Milliseconds since 1970.
pub fn unix_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
