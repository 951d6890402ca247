//! How many of the requests that waited for an arm may leave at a time.

use std::time::Duration;

/// What an endpoint takes at once when nothing is known of it: a usual batch of a model server, and well below the 128
/// connections that an operating system queues for a server that is slow to accept.
pub const USUAL_CAPACITY: u32 = 16;

/// While nothing comes back, one more request an endpoint leaves at this interval: a capacity that is too low and
/// answers that take minutes hold nobody up for good, and an endpoint gets at most ten more in a second.
pub const REFILL: Duration = Duration::from_millis(100);

/// Requests that an arm may have in flight while others wait for their turn.
pub fn window(capacity: Option<u32>, endpoints: usize) -> u64 {
    let each = capacity.unwrap_or(USUAL_CAPACITY).max(1);
    u64::from(each).saturating_mul(endpoints as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_takes_its_capacity() {
        assert_eq!(window(Some(4), 3), 12);
        assert_eq!(window(None, 2), 32);
        assert_eq!(window(Some(0), 2), 2, "never nothing");
        assert_eq!(window(Some(4), 0), 0);
    }
}
