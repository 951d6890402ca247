//! One endpoint: its load, its health and its kept connections; they outlive configurations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use modelway_route::ejection::Ejection;
use modelway_route::pick::Load;
use parking_lot::Mutex;

use crate::upstream::Pool;

/// An endpoint that requests can go to.
pub struct Endpoint {
    /// `host:port`.
    pub address: String,
    /// Kept connections.
    pub pool: Pool,
    in_flight: AtomicU32,
    ejection: Mutex<Ejection>,
    /// End of the ejection in milliseconds of [`crate::clock::now`]: readable without the lock.
    ejected_until: AtomicU64,
    failing: AtomicU32,
}

impl Endpoint {
    /// An endpoint that nothing is known of.
    pub fn new(address: String) -> Self {
        Self {
            address,
            pool: Pool::default(),
            in_flight: AtomicU32::new(0),
            ejection: Mutex::default(),
            ejected_until: AtomicU64::new(0),
            failing: AtomicU32::new(0),
        }
    }

    /// Counts one request until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Occupied {
        self.in_flight.fetch_add(1, Relaxed);
        Occupied(self.clone())
    }

    /// A response that shows health.
    pub fn succeeded(&self) {
        if self.failing.swap(0, Relaxed) > 0 {
            self.ejection.lock().succeeded();
        }
    }

    /// A connect error or a 5xx; true when it ejected the endpoint from its arm.
    pub fn failed(&self, now: Duration, arm: &[Arc<Self>]) -> bool {
        self.failing.fetch_add(1, Relaxed);
        let others = arm.iter().filter(|other| !std::ptr::eq(other.as_ref(), self) && other.is_ejected(now)).count();
        let mut ejection = self.ejection.lock();
        let ejected = ejection.failed(now, others, arm.len());
        if let Some(until) = ejection.until() {
            self.ejected_until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Relaxed);
        }
        ejected
    }
}

impl Load for Endpoint {
    fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    fn is_ejected(&self, now: Duration) -> bool {
        now.as_millis() < u128::from(self.ejected_until.load(Relaxed))
    }
}

/// One request at an endpoint.
pub struct Occupied(pub Arc<Endpoint>);

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}
