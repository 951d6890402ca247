//! Requests that were refused everywhere wait a little for an endpoint to come back.

use std::sync::Arc;
use std::time::Duration;

use modelway_route::ArmIndex;
use modelway_route::arm::ACTIVE_HOLD;
use tokio::time::{Instant, timeout};

use crate::hold::Held;
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
    held: Option<Held>,
}

impl Comeback {
    /// Has not waited.
    pub fn new() -> Self {
        Self { since: None, pause: FIRST_PAUSE, held: None }
    }

    /// Whether the request has waited before.
    pub fn has_waited(&self) -> bool {
        self.since.is_some()
    }

    /// Waits for other routes or a short while; `false` when there is no time or place left.
    pub async fn wait(&mut self, shared: &Shared, routes: &Routes, arm: ArmIndex, bytes: u64) -> bool {
        let (limits, meter) = (routes.table.hold, &routes.arms[arm.get()].meter);
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = ACTIVE_HOLD.min(limits.max_age).saturating_sub(since.elapsed());
        if self.held.is_none() {
            self.held = shared.hold.enter(bytes, limits, meter);
        }
        if left.is_zero() || self.held.is_none() {
            return false;
        }
        let mut changes = shared.routes.changes();
        let _ = timeout(self.pause.min(left), changes.changed()).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Takes the newest routes: the endpoint may have left the table in the meantime.
pub fn follow(shared: &Shared, name: &str, routes: &mut Arc<Routes>, arm: &mut ArmIndex) {
    if let Some(newer) = shared.routes.load()
        && let Some(same) = newer.table.arm_named(name)
    {
        (*routes, *arm) = (newer, same);
    }
}
