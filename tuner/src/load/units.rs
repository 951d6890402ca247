//! Conversions whose limits are known.

use std::time::Duration;

/// Nanoseconds of a duration; past 584 years the largest number.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds of nanoseconds.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The whole part; below zero and not-a-number give 0, too large gives the largest number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
pub fn whole(value: f64) -> u64 {
    value as u64
}

/// A count as an index; saturates, so that a bound check after it fails closed.
pub fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
