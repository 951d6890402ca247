//! What is counted for a request, given back and written down when it ends, however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use crate::body::{Completion, RequestBody};
use crate::endpoint::Occupied;
use crate::hold::Place;
use crate::meter::{ArmMeter, ErrorClass};

/// What a request holds until its response has ended; dropping it gives everything back.
pub struct Ends {
    /// What came of it.
    pub record: Record,
    /// Its place at the endpoint.
    pub occupied: Occupied,
    /// Its place at the arm.
    #[expect(dead_code, reason = "counts down when it is dropped")]
    pub in_flight: InFlight,
    /// Its connection.
    pub sender: SendRequest<RequestBody>,
}

/// Ends a request with its response's body.
pub struct Ending(pub Option<Ends>);

impl Completion for Ending {
    fn ended(&mut self) {
        if let Some(ends) = self.0.take() {
            ends.occupied.0.pool.put(ends.sender);
        }
    }

    fn failed(&mut self, stalled: bool) {
        if let Some(ends) = self.0.take() {
            ends.record.error(if stalled { ErrorClass::Timeout } else { ErrorClass::Reset });
        }
    }
}

/// Counts a request of the arm that serves it until it is dropped.
pub struct InFlight(Arc<ArmMeter>);

impl InFlight {
    /// Counts up; the place of a request that was held ends in the same moment.
    pub fn begin(meter: &Arc<ArmMeter>, place: Option<Place>) -> Self {
        match place {
            None => meter.lane.begin(),
            Some(place) => place.begin(meter),
        }
        Self(meter.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.lane.end();
    }
}

/// What came of a request, counted for its assigned arm when it is dropped, also when the client has gone.
pub struct Record {
    /// The arm that it was assigned to.
    pub arm: Option<Arc<ArmMeter>>,
    /// When it began.
    pub started: Instant,
    /// What the client was told.
    pub status: Option<StatusCode>,
}

impl Record {
    /// Begins now.
    pub fn start() -> Self {
        Self { arm: None, started: Instant::now(), status: None }
    }

    /// Counts it for its arm.
    pub fn assign(&mut self, arm: &Arc<ArmMeter>) {
        arm.requests.fetch_add(1, Relaxed);
        self.arm = Some(arm.clone());
    }

    /// Counts an error for its arm.
    pub fn error(&self, class: ErrorClass) {
        if let Some(arm) = &self.arm {
            arm.error(class);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(arm) = &self.arm {
            arm.finished(self.status, self.started.elapsed());
        }
    }
}
