//! Places for requests that wait, bounded by count and bytes over all arms, and the pace at which they leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use modelway_route::pace::REFILL;
use modelway_route::table::Hold;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::lane::{Ticket, Turn};
use crate::meter::{ArmMeter, HoldOutcome, Metrics};

/// What waits now, over all arms.
pub struct HoldGate {
    requests: AtomicU64,
    bytes: AtomicU64,
    /// Told of every arm that starts to have waiting requests.
    started: watch::Sender<u64>,
    /// Cancelled when nobody can wait any longer: the router is about to end.
    pub closed: CancellationToken,
}

impl HoldGate {
    /// Nothing waits.
    pub fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            started: watch::Sender::new(0),
            closed: CancellationToken::new(),
        }
    }

    /// A place in the line of an arm for a request of `bytes`; none when the limits are reached.
    pub fn enter(self: &Arc<Self>, bytes: u64, limits: Hold, arm: &Arc<ArmMeter>) -> Option<Place> {
        let permit = self.permit(bytes, limits)?;
        let (ticket, turn, first) = arm.lane.enter(bytes);
        self.tell(first);
        let line = Line { ticket, turn, since: clock::now(), granted: false };
        let outcome = Some(HoldOutcome::ClientGone);
        Some(Place { permit, arm: arm.clone(), line: Some(line), outcome, in_lane: true })
    }

    /// A place beside the line: the request waits for an endpoint that the routes have, and for no turn.
    pub fn enter_aside(self: &Arc<Self>, bytes: u64, limits: Hold, arm: &Arc<ArmMeter>) -> Option<Place> {
        let permit = self.permit(bytes, limits)?;
        self.tell(arm.lane.enter_aside(bytes));
        Some(Place { permit, arm: arm.clone(), line: None, outcome: None, in_lane: true })
    }

    /// Told of every arm that starts to have waiting requests.
    pub fn started(&self) -> watch::Receiver<u64> {
        self.started.subscribe()
    }

    fn permit(self: &Arc<Self>, bytes: u64, limits: Hold) -> Option<Permit> {
        let requests = self.requests.fetch_add(1, Relaxed) + 1;
        let total = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let permit = Permit { gate: self.clone(), bytes };
        (requests <= u64::from(limits.max_requests) && total <= limits.max_bytes).then_some(permit)
    }

    fn tell(&self, first: bool) {
        if first {
            self.started.send_modify(|count| *count += 1);
        }
    }
}

/// Lets requests go whose turn does not come by itself, as long as any wait.
pub async fn keep_pace(gate: Arc<HoldGate>, metrics: Arc<Metrics>, token: CancellationToken) {
    let mut started = gate.started();
    loop {
        if gate.requests.load(Relaxed) == 0 {
            tokio::select! {
                () = token.cancelled() => return,
                // The sender lives in the gate, so this never ends with an error.
                _ = started.changed() => {}
            }
        }
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(REFILL) => metrics.arms().values().for_each(|arm| arm.lane.refill()),
        }
    }
}

/// A share of the limits, given back when it is dropped.
struct Permit {
    gate: Arc<HoldGate>,
    bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.requests.fetch_sub(1, Relaxed);
        self.gate.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// A waiting request's place; dropping it gives everything back, whenever the client leaves.
pub struct Place {
    permit: Permit,
    arm: Arc<ArmMeter>,
    line: Option<Line>,
    /// What is counted when the place is dropped.
    outcome: Option<HoldOutcome>,
    /// Whether the lane counts it.
    in_lane: bool,
}

struct Line {
    ticket: Ticket,
    turn: Turn,
    since: Duration,
    granted: bool,
}

impl Place {
    /// Whether it is a place at this arm.
    pub fn is_at(&self, arm: &Arc<ArmMeter>) -> bool {
        Arc::ptr_eq(&self.arm, arm)
    }

    /// Whether the request may leave.
    pub fn has_turn(&mut self) -> bool {
        self.line.as_mut().is_none_or(|line| {
            line.granted = line.granted || line.turn.try_recv().is_ok();
            line.granted
        })
    }

    /// Ends when the request may leave.
    pub async fn turn(&mut self) {
        match &mut self.line {
            Some(line) if !line.granted => {
                // The lane sends before it forgets a request, and this place keeps the lane.
                let _ = (&mut line.turn).await;
                line.granted = true;
            }
            _ => std::future::pending().await,
        }
    }

    /// Back in the line at the same position, for its arm cannot answer any more.
    pub fn wait_again(&mut self) {
        if let Some(line) = &mut self.line
            && std::mem::take(&mut line.granted)
        {
            line.turn = self.arm.lane.enter_again(line.ticket, line.since);
        }
    }

    /// To the end of another arm's line, within the same share of the limits.
    pub fn move_to(&mut self, arm: &Arc<ArmMeter>) {
        self.arm.lane.leave(self.ticket(), self.permit.bytes);
        let (ticket, turn, first) = arm.lane.enter(self.permit.bytes);
        self.permit.gate.tell(first);
        self.arm = arm.clone();
        self.line = Some(Line { ticket, turn, since: clock::now(), granted: false });
    }

    /// What became of the request.
    pub fn ends(&mut self, outcome: HoldOutcome) {
        self.outcome = self.outcome.map(|_| outcome);
    }

    /// Ends as the request goes to an endpoint of `to`.
    pub fn begin(mut self, to: &Arc<ArmMeter>) {
        if !self.is_at(to) {
            return to.lane.begin();
        }
        self.arm.lane.begin_held(self.ticket(), self.permit.bytes);
        self.in_lane = false;
    }

    fn ticket(&self) -> Option<Ticket> {
        self.line.as_ref().map(|line| line.ticket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.in_lane {
            self.arm.lane.leave(self.ticket(), self.permit.bytes);
        }
        if let Some(outcome) = self.outcome {
            self.arm.hold_ended(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::record::InFlight;

    fn limits(max_requests: u32, max_bytes: u64) -> Hold {
        Hold { max_requests, max_bytes, max_age: Duration::ZERO }
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let gate = Arc::new(HoldGate::new());
        let arm = Metrics::new().unwrap().arm("digits", "v1");
        let limits = limits(2, 100);
        let first = gate.enter(60, limits, &arm).unwrap();
        assert!(gate.enter(41, limits, &arm).is_none(), "bytes");
        let second = gate.enter_aside(40, limits, &arm).unwrap();
        assert!(gate.enter(0, limits, &arm).is_none(), "count");
        assert_eq!((arm.lane.now().held, arm.lane.now().held_bytes), (2, 100));
        drop((first, second));
        assert_eq!((arm.lane.now().held, arm.lane.now().held_bytes), (0, 0));
        assert!(gate.enter(100, limits, &arm).is_some());
    }

    #[tokio::test]
    async fn only_an_arm_that_starts_to_wait_is_told_of() {
        let gate = Arc::new(HoldGate::new());
        let metrics = Metrics::new().unwrap();
        let (v1, v2) = (metrics.arm("digits", "v1"), metrics.arm("digits", "v2"));
        let mut started = gate.started();
        let enter = |arm| gate.enter(0, limits(10, 10), arm).unwrap();
        let first = enter(&v1);
        assert!(started.has_changed().unwrap());
        started.mark_unchanged();
        let second = enter(&v1);
        assert!(!started.has_changed().unwrap());
        let mut other = enter(&v2);
        assert!(started.has_changed().unwrap());
        started.mark_unchanged();
        other.move_to(&v1);
        assert!(!started.has_changed().unwrap());
        drop((first, second, other));
        let _again = enter(&v1);
        assert!(started.has_changed().unwrap());
    }

    #[test]
    fn outcomes_are_counted_once() {
        let gate = Arc::new(HoldGate::new());
        let metrics = Metrics::new().unwrap();
        let (v1, v2) = (metrics.arm("digits", "v1"), metrics.arm("digits", "v2"));
        let place = |outcome| {
            let mut place = gate.enter(0, limits(10, 10), &v1).unwrap();
            place.ends(outcome);
            place
        };
        drop(InFlight::begin(&v1, Some(place(HoldOutcome::Released))));
        drop(InFlight::begin(&v2, Some(place(HoldOutcome::FailedOver))));
        drop(place(HoldOutcome::Expired));
        drop(gate.enter(0, limits(10, 10), &v1));
        drop(gate.enter_aside(0, limits(10, 10), &v1));
        let text = metrics.text().unwrap();
        for outcome in ["released", "failed_over", "expired", "client_gone"] {
            let line = format!(
                "modelway_router_hold_outcomes_total{{arm=\"v1\",inference=\"digits\",outcome=\"{outcome}\"}} 1\n"
            );
            assert!(text.contains(&line), "{outcome}: {text}");
        }
        assert_eq!((v1.lane.now().held, v1.lane.now().in_flight, v2.lane.now().in_flight), (0, 0, 0));
    }

    /// Something that happens to requests that wait.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Come { arm: usize, aside: bool },
        Leave(usize),
        Send { which: usize, to: usize },
        Move { which: usize, to: usize },
        WaitAgain(usize),
        Answered(usize),
        Open { arm: usize, window: u64, endpoints: usize },
        Refill(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        let (arm, which) = (0..2_usize, 0..64_usize);
        prop_oneof![
            6 => (arm.clone(), any::<bool>()).prop_map(|(arm, aside)| Event::Come { arm, aside }),
            2 => which.clone().prop_map(Event::Leave),
            3 => (which.clone(), arm.clone()).prop_map(|(which, to)| Event::Send { which, to }),
            1 => (which.clone(), arm.clone()).prop_map(|(which, to)| Event::Move { which, to }),
            1 => which.clone().prop_map(Event::WaitAgain),
            3 => which.prop_map(Event::Answered),
            2 => (arm.clone(), 0..6_u64, 0..3_usize)
                .prop_map(|(arm, window, endpoints)| Event::Open { arm, window, endpoints }),
            1 => arm.prop_map(Event::Refill),
        ]
    }

    struct World {
        gate: Arc<HoldGate>,
        arms: [Arc<ArmMeter>; 2],
        places: Vec<Place>,
        in_flight: Vec<(usize, InFlight)>,
    }

    impl World {
        fn happen(&mut self, event: Event) {
            let index = |which: usize, of: usize| (of > 0).then(|| which % of);
            let (places, flying) = (self.places.len(), self.in_flight.len());
            match event {
                Event::Come { arm, aside } => {
                    let (arm, limits) = (&self.arms[arm], limits(40, 4_000));
                    let bytes = places as u64 * 3;
                    let enter = if aside { HoldGate::enter_aside } else { HoldGate::enter };
                    self.places.extend(enter(&self.gate, bytes, limits, arm));
                }
                Event::Leave(which) => {
                    index(which, places).map(|index| self.places.remove(index));
                }
                Event::Send { which, to } => {
                    let Some(index) = index(which, places) else { return };
                    if self.places[index].has_turn() || which % 2 == 0 {
                        let place = self.places.remove(index);
                        self.in_flight.push((to, InFlight::begin(&self.arms[to], Some(place))));
                    }
                }
                Event::Move { which, to } => {
                    if let Some(index) = index(which, places) {
                        self.places[index].move_to(&self.arms[to]);
                    }
                }
                Event::WaitAgain(which) => {
                    if let Some(index) = index(which, places) {
                        self.places[index].has_turn();
                        self.places[index].wait_again();
                    }
                }
                Event::Answered(which) => {
                    index(which, flying).map(|index| self.in_flight.remove(index));
                }
                Event::Open { arm, window, endpoints } => self.arms[arm].lane.open(window, endpoints),
                Event::Refill(arm) => self.arms[arm].lane.refill(),
            }
        }

        fn check(&mut self) {
            for (number, arm) in self.arms.iter().enumerate() {
                let now = arm.lane.now();
                let held = self.places.iter().filter(|place| place.is_at(arm));
                let (count, bytes) = held.fold((0, 0), |(count, bytes), place| (count + 1, bytes + place.permit.bytes));
                assert_eq!((now.held, now.held_bytes), (count, bytes), "held at arm {number}");
                let flying = self.in_flight.iter().filter(|(at, _)| *at == number).count();
                assert_eq!(now.in_flight, flying as u64, "in flight at arm {number}");
                let waiting = |place: &mut Place| place.is_at(arm) && place.line.is_some() && !place.has_turn();
                // All of them are asked, so that each knows of its turn.
                let waiting = self.places.iter_mut().filter_map(|place| waiting(place).then_some(())).count() > 0;
                assert_eq!(arm.lane.has_line(), waiting, "the line of arm {number}");
                let let_go = self.places.iter().filter(|place| place.is_at(arm));
                let let_go = let_go.filter(|place| place.line.as_ref().is_some_and(|line| line.granted)).count();
                let full = now.in_flight + let_go as u64 >= now.window;
                assert!(!waiting || full, "somebody waits at arm {number} although there is room");
            }
            assert_eq!(self.gate.requests.load(Relaxed), self.places.len() as u64);
        }
    }

    proptest! {
        #[test]
        fn counts_never_leak_whatever_happens(events in prop::collection::vec(event(), 0..200)) {
            let metrics = Metrics::new().unwrap();
            let arms = [metrics.arm("digits", "v1"), metrics.arm("digits", "v2")];
            let gate = Arc::new(HoldGate::new());
            let mut world = World { gate: gate.clone(), arms: arms.clone(), places: Vec::new(), in_flight: Vec::new() };
            for event in events {
                world.happen(event);
                world.check();
            }
            // Room for all, and everybody gets a turn.
            for arm in &arms {
                arm.lane.open(1_000, 1);
            }
            world.check();
            prop_assert!(arms.iter().all(|arm| !arm.lane.has_line()));
            drop(world);
            let zero = |arm: &ArmMeter| (arm.lane.now().held, arm.lane.now().held_bytes, arm.lane.now().in_flight);
            prop_assert_eq!(arms.map(|arm| zero(&arm)), [(0, 0, 0); 2]);
            prop_assert_eq!((gate.requests.load(Relaxed), gate.bytes.load(Relaxed)), (0, 0));
        }
    }
}
