//! Requests that were refused by every endpoint of the routes wait a little for one to come back.

use std::sync::Arc;
use std::time::Duration;

use modelway_route::arm::ACTIVE_HOLD;
use tokio::time::{Instant, timeout};

use crate::hold::Place;
use crate::meter::ArmMeter;
use crate::routes::Routes;
use crate::server::Shared;

/// Pause before the first look whether a lost endpoint is back; doubled each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// A request that waits because every endpoint it tried refused the connection: a pod that restarts is back before the
/// route table says that it was away.
pub struct Comeback {
    since: Option<Instant>,
    pause: Duration,
}

impl Comeback {
    /// Has not waited.
    pub fn new() -> Self {
        Self { since: None, pause: FIRST_PAUSE }
    }

    /// Whether the request has waited before.
    pub fn has_waited(&self) -> bool {
        self.since.is_some()
    }

    /// Waits for other routes or a short while, then hands over the place that the request had meanwhile; none when
    /// there is no time or place left.
    pub async fn wait(&mut self, shared: &Shared, routes: &Routes, arm: &Arc<ArmMeter>, bytes: u64) -> Option<Place> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = ACTIVE_HOLD.min(routes.table.longest_hold()).saturating_sub(since.elapsed());
        if left.is_zero() || shared.hold.closed.is_cancelled() {
            return None;
        }
        let place = shared.hold.enter_aside(bytes, routes.table.hold, arm)?;
        let mut changes = shared.routes.changes();
        let _ = timeout(self.pause.min(left), changes.changed()).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(place)
    }
}
