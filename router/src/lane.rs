//! One arm's requests at this moment: in flight, held, how much of both over time, and whose turn it is to leave.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock;

/// The requests of one arm. Outlives configurations, as its requests do.
#[derive(Default)]
pub struct Lane {
    state: Mutex<State>,
    /// Whether requests wait for their turn: readable without the lock.
    queued: AtomicBool,
}

/// What a lane says of itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LaneNow {
    /// Requests with an endpoint.
    pub in_flight: u64,
    /// Requests that wait, or have just been let go.
    pub held: u64,
    /// Integral over time of both, in request-microseconds.
    pub busy_us: u64,
    /// Bytes that held requests keep in memory.
    pub held_bytes: u64,
    /// Age of the request that has waited longest for its turn.
    pub oldest: Option<Duration>,
    /// Requests that may be in flight while others wait; 0 = the arm cannot answer.
    pub window: u64,
}

/// A request's number in the order of arrival.
pub type Ticket = u64;

/// Tells a waiting request that it may leave.
pub type Turn = oneshot::Receiver<()>;

#[derive(Debug, Default)]
struct State {
    now: LaneNow,
    /// Until when `now.busy_us` is counted.
    counted: Duration,
    /// In the order of arrival.
    queue: VecDeque<Waiter>,
    /// Let go, and not in flight yet.
    granted: u64,
    endpoints: u64,
    last_ticket: Ticket,
    /// Whether a request was let go since the last refill.
    moved: bool,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    since: Duration,
    turn: oneshot::Sender<()>,
}

impl Lane {
    /// Counts a request that goes to an endpoint.
    pub fn begin(&self) {
        self.change(|state| state.now.in_flight += 1);
    }

    /// Counts a request that was held and goes to an endpoint now, in one step.
    pub fn begin_held(&self, ticket: Option<Ticket>, bytes: u64) {
        self.change(|state| {
            state.forget(ticket, bytes);
            state.now.in_flight += 1;
        });
    }

    /// Counts the end of a request at an endpoint; another one may leave in its place.
    pub fn end(&self) {
        self.change(|state| state.now.in_flight -= 1);
    }

    /// A held request at the end of the line; true when it is the only one held.
    pub fn enter(&self, bytes: u64) -> (Ticket, Turn, bool) {
        self.change(|state| {
            state.last_ticket += 1;
            let (ticket, first) = (state.last_ticket, state.hold(bytes));
            (ticket, state.queue_at(state.queue.len(), ticket, state.counted), first)
        })
    }

    /// A held request that waits for no turn; true when it is the only one held.
    pub fn enter_aside(&self, bytes: u64) -> bool {
        self.change(|state| state.hold(bytes))
    }

    /// Back to its place in the line: it was let go, and its arm cannot answer any more.
    pub fn enter_again(&self, ticket: Ticket, since: Duration) -> Turn {
        self.change(|state| match state.queue.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            Ok(position) => {
                state.queue.remove(position);
                state.queue_at(position, ticket, since)
            }
            Err(position) => {
                state.granted -= 1;
                state.queue_at(position, ticket, since)
            }
        })
    }

    /// A held request that leaves without going to an endpoint.
    pub fn leave(&self, ticket: Option<Ticket>, bytes: u64) {
        self.change(|state| state.forget(ticket, bytes));
    }

    /// How many may be in flight while others wait, at how many endpoints.
    pub fn open(&self, window: u64, endpoints: usize) {
        self.change(|state| {
            state.now.window = window;
            state.endpoints = endpoints as u64;
        });
    }

    /// Lets one more request an endpoint go when none has gone since the last call.
    pub fn refill(&self) {
        self.change(|state| {
            if !std::mem::take(&mut state.moved) && state.now.window > 0 {
                (0..state.endpoints).for_each(|_| state.grant_one());
            }
            state.moved = false;
        });
    }

    /// Whether requests wait for their turn: whoever comes now goes behind them.
    pub fn has_line(&self) -> bool {
        self.queued.load(Relaxed)
    }

    /// All of it at one moment.
    pub fn now(&self) -> LaneNow {
        self.change(|state| {
            let oldest = state.queue.front().map(|waiter| state.counted.saturating_sub(waiter.since));
            LaneNow { oldest, ..state.now }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let now = clock::now();
        let mut state = self.state.lock();
        state.count(now);
        let result = change(&mut state);
        state.grant();
        let queued = !state.queue.is_empty();
        if self.queued.load(Relaxed) != queued {
            self.queued.store(queued, Relaxed);
        }
        result
    }
}

impl State {
    /// Whole microseconds only, so that nothing is lost to rounding.
    fn count(&mut self, now: Duration) {
        let elapsed = u64::try_from(now.saturating_sub(self.counted).as_micros()).unwrap_or(u64::MAX);
        self.now.busy_us = self.now.busy_us.wrapping_add(elapsed.wrapping_mul(self.now.in_flight + self.now.held));
        self.counted += Duration::from_micros(elapsed);
    }

    fn hold(&mut self, bytes: u64) -> bool {
        self.now.held += 1;
        self.now.held_bytes += bytes;
        self.now.held == 1
    }

    fn queue_at(&mut self, position: usize, ticket: Ticket, since: Duration) -> Turn {
        let (turn, receiver) = oneshot::channel();
        self.queue.insert(position, Waiter { ticket, since, turn });
        receiver
    }

    fn forget(&mut self, ticket: Option<Ticket>, bytes: u64) {
        self.now.held -= 1;
        self.now.held_bytes -= bytes;
        let Some(ticket) = ticket else { return };
        match self.queue.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            Ok(waiting) => drop(self.queue.remove(waiting)),
            Err(_) => self.granted -= 1,
        }
    }

    fn grant(&mut self) {
        while !self.queue.is_empty() && self.now.in_flight + self.granted < self.now.window {
            self.grant_one();
        }
    }

    fn grant_one(&mut self) {
        if let Some(waiter) = self.queue.pop_front() {
            self.granted += 1;
            self.moved = true;
            // One that is just leaving gives its turn back when it has left.
            let _ = waiter.turn.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn granted(turns: &mut [(Ticket, Turn, bool)]) -> usize {
        turns.iter_mut().map_while(|(_, turn, _)| turn.try_recv().ok()).count()
    }

    #[test]
    fn those_who_wait_leave_in_order_as_far_as_there_is_room() {
        let lane = Lane::default();
        let mut turns: Vec<_> = (0..10).map(|_| lane.enter(1)).collect();
        assert!(turns[0].2 && !turns[1].2, "only the first one wakes the arm");
        assert_eq!(granted(&mut turns), 0);
        lane.open(3, 1);
        assert_eq!(granted(&mut turns), 3);
        for (ticket, _, _) in turns.drain(..3) {
            lane.begin_held(Some(ticket), 1);
        }
        assert_eq!(granted(&mut turns), 0, "three are in flight");
        lane.end();
        assert_eq!(granted(&mut turns), 1, "one came back");
        let (left, ..) = turns.remove(0);
        lane.leave(Some(left), 1);
        assert_eq!(granted(&mut turns), 1, "one left before it was sent");
        assert!(lane.has_line());
        let now = lane.now();
        assert_eq!((now.in_flight, now.held, now.held_bytes), (2, 6, 6));
    }

    #[test]
    fn an_arm_that_does_not_answer_gets_one_more_an_endpoint_at_each_refill() {
        let lane = Lane::default();
        let mut turns: Vec<_> = (0..10).map(|_| lane.enter(0)).collect();
        lane.refill();
        assert_eq!(granted(&mut turns), 0, "it cannot answer");
        lane.open(2, 2);
        lane.refill();
        assert_eq!(granted(&mut turns), 2, "two have just left");
        turns.drain(..2);
        lane.refill();
        assert_eq!(granted(&mut turns), 2);
        turns.drain(..2);
        lane.open(0, 0);
        lane.refill();
        assert_eq!(granted(&mut turns), 0);
    }

    #[test]
    fn a_request_that_lost_its_turn_is_first_again() {
        let lane = Lane::default();
        let mut turns: Vec<_> = (0..3).map(|_| lane.enter(0)).collect();
        lane.open(1, 1);
        assert_eq!(granted(&mut turns), 1);
        lane.open(0, 0);
        turns[0].1 = lane.enter_again(turns[0].0, Duration::ZERO);
        lane.open(2, 1);
        assert_eq!(granted(&mut turns), 2);
    }

    proptest! {
        #[test]
        fn busy_is_the_sum_of_the_times_of_all_requests(
            requests in prop::collection::vec((0_u64..1_000_000, 0_u64..1_000_000), 0..40),
            read in 0_u64..2_500_000,
        ) {
            // Every request as two changes, in the order of time; nanoseconds to see that rounding loses nothing.
            let mut changes: Vec<(u64, i64)> = requests
                .iter()
                .flat_map(|(from, long)| [(*from, 1), (from + long, -1)])
                .filter(|(at, _)| *at <= read)
                .collect();
            changes.sort_unstable_by_key(|(at, _)| *at);
            let mut state = State::default();
            for (at, delta) in changes {
                state.count(Duration::from_micros(at) + Duration::from_nanos(at % 1_000));
                state.now.in_flight = state.now.in_flight.checked_add_signed(delta).unwrap();
            }
            state.count(Duration::from_micros(read) + Duration::from_nanos(999));
            let until = |at: u64| at.min(read);
            let exact: u64 = requests.iter().map(|(from, long)| until(from + long) - until(*from)).sum();
            prop_assert_eq!(state.now.busy_us, exact);
        }
    }
}
