//! What the admin port says of requests that wait: counts and ages, nothing of the requests themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::lane::LaneNow;
use crate::server::Shared;

/// Everything that waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldReport {
    /// Bounds, the first two over all arms together; none before the first route table.
    limits: Option<HeldLimits>,
    /// Arms of the route table, and those that have left it while requests still wait.
    arms: BTreeMap<String, HeldArm>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldLimits {
    requests: u32,
    bytes: u64,
    age_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldArm {
    requests: u64,
    bytes: u64,
    oldest_age_ms: u64,
    /// Whether the arm can answer, and the others wait for their turn.
    pacing: bool,
    /// How many may be in flight while others wait.
    window: u64,
    in_flight: u64,
}

/// What waits now.
pub fn report(shared: &Shared) -> HeldReport {
    let routes = shared.routes.load();
    let limits = routes.as_ref().map(|routes| HeldLimits {
        requests: routes.table.hold.max_requests,
        bytes: routes.table.hold.max_bytes,
        age_ms: milliseconds(routes.table.longest_hold()),
    });
    let in_table = |name: &str| routes.as_ref().is_some_and(|routes| routes.table.arm_named(name).is_some());
    let arms = shared.metrics.arms().into_iter().filter_map(|(name, meter)| {
        let now = meter.lane.now();
        (now.held > 0 || in_table(&name)).then(|| (name, HeldArm::from(now)))
    });
    HeldReport { limits, arms: arms.collect() }
}

impl From<LaneNow> for HeldArm {
    fn from(now: LaneNow) -> Self {
        Self {
            requests: now.held,
            bytes: now.held_bytes,
            oldest_age_ms: milliseconds(now.oldest.unwrap_or_default()),
            pacing: now.window > 0 && now.oldest.is_some(),
            window: now.window,
            in_flight: now.in_flight,
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
