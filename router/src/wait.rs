//! Where a request goes, and its wait until an arm can answer it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use modelway_route::arm::{Decision, Refusal, Waiting, decide};
use modelway_route::table::AssignedBy;
use modelway_route::{ArmIndex, Order};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::answer::Problem;
use crate::body::UploadFailure;
use crate::connection::ConnectionState;
use crate::hold::Place;
use crate::meter::{ArmMeter, ErrorClass, HoldOutcome};
use crate::record::Record;
use crate::routes::Routes;
use crate::server::Shared;
use crate::view::View;

/// How often a connection is looked at that nothing is read from while its request waits.
const LOOK: Duration = Duration::from_millis(500);

/// Where one request goes by the newest routes that it has seen.
pub struct Wait {
    /// Those routes.
    pub routes: Arc<Routes>,
    order: Order,
    random: u64,
    /// Bytes that it keeps in memory.
    bytes: u64,
    since: Instant,
    lacking_since: Option<Instant>,
    /// The connection, where a body has still to be read from it.
    uploading: Option<Arc<ConnectionState>>,
    place: Option<Place>,
    changes: Option<watch::Receiver<u64>>,
    had_turn: bool,
    failed_over: bool,
}

impl Wait {
    /// A request that came at `since` and was assigned to the first arm of an order.
    pub fn new(routes: Arc<Routes>, order: Order, random: u64, since: Instant) -> Self {
        Self {
            routes,
            order,
            random,
            bytes: 0,
            since,
            lacking_since: None,
            uploading: None,
            place: None,
            changes: None,
            had_turn: false,
            failed_over: false,
        }
    }

    /// How much the request keeps in memory while it waits, and where the rest of it comes from.
    pub fn keeps(&mut self, bytes: u64, uploading: Option<Arc<ConnectionState>>) {
        self.bytes = bytes;
        self.uploading = uploading;
    }

    /// Whether the request has to wait as things are.
    pub fn must_wait(&mut self) -> bool {
        matches!(self.decide(), Decision::Hold(_))
    }

    /// Bytes that the request keeps in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The place that a request had until now, if it had to wait.
    pub fn take_place(&mut self) -> Option<Place> {
        if let Some(connection) = &self.uploading {
            connection.watched.store(false, Relaxed);
        }
        self.place.take()
    }

    /// Waits until the assigned arm can answer and the request has its turn, or names the arm that answers in its
    /// place. An assigned arm stays assigned as long as it exists, whatever the routes become.
    pub async fn arm(&mut self, shared: &Shared, view: &View<'_>, record: &Record) -> Result<ArmIndex, Problem> {
        loop {
            match self.decide() {
                Decision::Forward(arm) => {
                    self.had_turn = true;
                    self.ends(HoldOutcome::Released);
                    return Ok(arm);
                }
                Decision::FailOver(arm) => {
                    if !std::mem::replace(&mut self.failed_over, true) {
                        record.error(ErrorClass::Failover);
                    }
                    self.had_turn = true;
                    self.ends(HoldOutcome::FailedOver);
                    return Ok(arm);
                }
                Decision::Refuse(refusal) => return Err(self.refused(refusal, record)),
                Decision::Hold(limit) => {
                    // The first time round nothing is awaited: a change may have come before the subscription.
                    if !self.enter(shared, record)? {
                        self.wait(shared, self.since + limit, record).await?;
                    }
                }
            }
            self.follow(shared, view);
        }
    }

    /// Takes the newest routes. The request stays with its arm, if that still exists.
    pub fn follow(&mut self, shared: &Shared, view: &View<'_>) {
        let Some(newer) = shared.routes.load().filter(|newer| !Arc::ptr_eq(newer, &self.routes)) else { return };
        let kept = self.order.first().and_then(|arm| newer.table.arm_named(&self.routes.table.arms[arm.get()].name));
        let assignment = newer.table.assign(view, self.random);
        self.order = match (kept, assignment.by) {
            (None, _) => assignment.order,
            (Some(arm), AssignedBy::Rule) => Order::only(arm),
            (Some(arm), AssignedBy::Unit | AssignedBy::Chance) => assignment.order.starting_with(arm),
        };
        self.routes = newer;
        if let (Some(meter), Some(place)) = (self.meter().cloned(), &mut self.place)
            && !place.is_at(&meter)
        {
            place.move_to(&meter);
        }
    }

    fn decide(&mut self) -> Decision {
        let assigned = self.order.first();
        if assigned.is_some_and(|arm| self.routes.now(arm).lacks_endpoints()) {
            self.lacking_since.get_or_insert_with(Instant::now);
        } else {
            self.lacking_since = None;
        }
        let turn = match &mut self.place {
            Some(place) => place.has_turn(),
            None => self.had_turn || !self.meter().is_some_and(|meter| meter.lane.has_line()),
        };
        let lacking = self.lacking_since.map(|since| since.elapsed()).unwrap_or_default();
        let waiting = Waiting { in_all: self.since.elapsed(), lacking, turn };
        decide(&self.order, |arm| self.routes.now(arm), waiting, self.routes.table.longest_hold())
    }

    /// True when the request has a place that it did not have before.
    fn enter(&mut self, shared: &Shared, record: &Record) -> Result<bool, Problem> {
        if let Some(place) = &mut self.place {
            // It was let go, and the arm cannot answer any more.
            place.wait_again();
            return Ok(false);
        }
        self.changes = Some(shared.routes.changes());
        let Some(meter) = self.meter().cloned() else { return Ok(true) };
        let hold = self.routes.table.hold;
        self.place = shared.hold.enter(self.bytes, hold, &meter);
        if self.place.is_some() {
            return Ok(true);
        }
        meter.hold_ended(HoldOutcome::Full);
        record.error(ErrorClass::NoEndpoint);
        Err(Problem::hold_full(self.name(), hold))
    }

    /// Until something may have changed for the request.
    async fn wait(&mut self, shared: &Shared, until: Instant, record: &Record) -> Result<(), Problem> {
        let (Some(place), Some(changes)) = (&mut self.place, &mut self.changes) else { return Ok(()) };
        if let Some(connection) = &self.uploading {
            connection.watched.store(true, Relaxed);
            if connection.left.load(Relaxed) {
                return Err(Problem::upload(UploadFailure::Broken));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK), if self.uploading.is_some() => Ok(()),
            () = place.turn() => Ok(()),
            // Whether there are other routes or the time is over, the next decision says what that means.
            _ = timeout_at(until, changes.changed()) => Ok(()),
            () = shared.hold.closed.cancelled() => {
                record.error(ErrorClass::NoEndpoint);
                self.ends(HoldOutcome::Expired);
                Err(Problem::ending(self.name(), self.since.elapsed()))
            }
        }
    }

    fn refused(&mut self, refusal: Refusal, record: &Record) -> Problem {
        record.error(ErrorClass::NoEndpoint);
        self.ends(match refusal {
            Refusal::HoldExpired | Refusal::TurnExpired => HoldOutcome::Expired,
            Refusal::NoWeight | Refusal::NoEndpoint => HoldOutcome::Refused,
        });
        Problem::refused(refusal, self.name(), self.since.elapsed())
    }

    fn ends(&mut self, outcome: HoldOutcome) {
        if let Some(place) = &mut self.place {
            place.ends(outcome);
        }
    }

    fn meter(&self) -> Option<&Arc<ArmMeter>> {
        self.order.first().map(|arm| &self.routes.arms[arm.get()].meter)
    }

    fn name(&self) -> &str {
        self.order.first().map(|arm| self.routes.table.arms[arm.get()].name.as_str()).unwrap_or_default()
    }
}
