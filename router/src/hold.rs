//! Requests that wait for an endpoint, bounded by count and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use modelway_route::table::Hold;
use tokio::sync::watch;

use crate::meter::ArmMeter;

/// What waits now, over all arms.
pub struct HoldGate {
    requests: AtomicU64,
    bytes: AtomicU64,
    /// Told of every request that starts to wait.
    started: watch::Sender<u64>,
}

impl HoldGate {
    /// Nothing waits.
    pub fn new() -> Self {
        Self { requests: AtomicU64::new(0), bytes: AtomicU64::new(0), started: watch::Sender::new(0) }
    }

    /// A place for a request of `bytes` for an arm; none when the limits are reached.
    pub fn enter(self: &Arc<Self>, bytes: u64, limits: Hold, arm: &Arc<ArmMeter>) -> Option<Held> {
        let requests = self.requests.fetch_add(1, Relaxed) + 1;
        let total = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        arm.held.fetch_add(1, Relaxed);
        let held = Held { gate: self.clone(), bytes, arm: arm.clone() };
        if requests > u64::from(limits.max_requests) || total > limits.max_bytes {
            return None;
        }
        self.started.send_modify(|count| *count += 1);
        Some(held)
    }

    /// Told of every request that starts to wait.
    pub fn started(&self) -> watch::Receiver<u64> {
        self.started.subscribe()
    }
}

/// One waiting request's place.
pub struct Held {
    gate: Arc<HoldGate>,
    bytes: u64,
    arm: Arc<ArmMeter>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gate.requests.fetch_sub(1, Relaxed);
        self.gate.bytes.fetch_sub(self.bytes, Relaxed);
        self.arm.held.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::meter::Metrics;

    #[test]
    fn places_are_bounded_and_given_back() {
        let gate = Arc::new(HoldGate::new());
        let arm = Metrics::new().unwrap().arm("digits", "v1");
        let limits = Hold { max_requests: 2, max_bytes: 100, max_age: Duration::ZERO };
        let first = gate.enter(60, limits, &arm).unwrap();
        assert!(gate.enter(41, limits, &arm).is_none(), "bytes");
        let second = gate.enter(40, limits, &arm).unwrap();
        assert!(gate.enter(0, limits, &arm).is_none(), "count");
        assert_eq!(arm.held.load(Relaxed), 2);
        drop((first, second));
        assert_eq!(arm.held.load(Relaxed), 0);
        assert!(gate.enter(100, limits, &arm).is_some());
    }
}
