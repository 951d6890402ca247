//! One event loop: takes requests up when they are due, and moves those under way.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::answers::Reading;
use super::connection::Slot;
use super::deadlines::{Deadline, Deadlines};
use super::poller::Poller;
use crate::load::constraint::Metric;
use crate::load::http::{RequestPlan, Scratch};
use crate::load::outcome::{Expectation, Failure};
use crate::load::schedule::{Due, Schedule};
use crate::load::statistics::{Measured, Second, Tally};
use crate::load::units::nanos;

/// Longest time without a look at whether to stop.
const LONGEST_WAIT: u64 = 100_000_000;
/// Events between looks at what is due.
const BURST: usize = 16;
/// Requests that are taken up between looks at the sockets, when the generator is behind.
const CATCH_UP: usize = 64;
/// A generator that is so far behind its plan at the end gives the rest up.
const LATE: u64 = 1_000_000_000;
/// Bytes read at once.
const READ_BUFFER: usize = 64 << 10;

/// What every thread knows.
#[derive(Debug)]
pub struct Shared {
    pub address: SocketAddr,
    pub plan: Arc<RequestPlan>,
    pub expectation: Expectation,
    pub reading: Reading,
    pub timeout: u64,
    /// End of the plan, when it is known.
    pub horizon: Option<u64>,
    pub epoch: Instant,
    pub stop: AtomicBool,
}

/// What the generator itself did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub reads: u64,
    pub writes: u64,
    pub waits: u64,
    pub connections: u64,
    /// Requests sent anew because the server had closed an idle connection.
    pub again: u64,
    /// Planned requests that were never sent.
    pub unsent: u64,
    /// Requests under way when the run was stopped.
    pub unfinished: u64,
    /// Most requests under way at once.
    pub most_in_flight: u64,
    /// Time on a processor.
    pub cpu: u64,
}

impl Work {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.waits += other.waits;
        self.connections += other.connections;
        self.again += other.again;
        self.unsent += other.unsent;
        self.unfinished += other.unfinished;
        self.most_in_flight += other.most_in_flight;
        self.cpu += other.cpu;
    }
}

/// What one thread has of the run.
#[derive(Debug)]
pub struct Share {
    pub schedule: Schedule,
    pub tally: Tally,
    pub max_connections: Option<NonZeroUsize>,
}

/// One thread of the generator.
pub struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) schedule: Schedule,
    pub(super) poller: Poller,
    pub(super) slots: Vec<Slot>,
    /// Slots without a connection.
    pub(super) free: Vec<usize>,
    /// Connections without a request; the last used one is used next.
    pub(super) idle: Vec<usize>,
    /// Requests that are due and have no connection.
    pub(super) waiting: VecDeque<Due>,
    pub(super) deadlines: Deadlines,
    pub(super) max_connections: usize,
    pub(super) buffer: Vec<u8>,
    pub(super) scratch: Scratch,
    pub(super) tally: Tally,
    pub(super) work: Work,
    /// Requests on a connection.
    pub(super) in_flight: usize,
    pub(super) exchanges: u64,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, share: Share) -> std::io::Result<Self> {
        let Share { schedule, tally, max_connections } = share;
        Ok(Self {
            shared,
            schedule,
            poller: Poller::new()?,
            slots: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            waiting: VecDeque::new(),
            deadlines: Deadlines::default(),
            max_connections: max_connections.map_or(usize::MAX, NonZeroUsize::get),
            buffer: vec![0; READ_BUFFER],
            scratch: Scratch::default(),
            tally,
            work: Work::default(),
            in_flight: 0,
            exchanges: 0,
        })
    }

    /// Runs until the plan is done, or stopped.
    pub fn run(mut self, seconds: &SyncSender<Second>) -> std::io::Result<(Measured, Work)> {
        let cpu_before = cpu_time();
        loop {
            let now = self.now();
            self.take_up(now);
            self.expire(now);
            self.tick(now, seconds);
            if self.is_over() {
                break;
            }
            let longest = self.wait_for();
            let ready = self.poller.wait(longest)?;
            self.work.waits += 1;
            for index in 0..ready {
                let event = self.poller.ready(index);
                self.handle(event);
                if index % BURST == BURST - 1 {
                    self.take_up(self.now());
                }
            }
        }
        self.work.unfinished = (self.in_flight + self.waiting.len()) as u64;
        self.work.cpu = cpu_time().saturating_sub(cpu_before);
        self.send_second(seconds);
        Ok((self.tally.finish(), self.work))
    }

    /// Nanoseconds since the start.
    pub(super) fn now(&self) -> u64 {
        nanos(self.shared.epoch.elapsed())
    }

    /// Sends what waited for a connection, then what is due. Both bounded: the sockets must have their turn.
    fn take_up(&mut self, now: u64) {
        for _ in 0..CATCH_UP {
            if self.waiting.is_empty() || !self.has_room() {
                break;
            }
            self.waiting.pop_front().into_iter().for_each(|due| self.dispatch(due));
        }
        for _ in 0..CATCH_UP {
            let Some(due) = self.schedule.take(now) else { return };
            self.tally.dispatched(due.at, now);
            self.dispatch(due);
        }
        if self.shared.horizon.is_some_and(|horizon| now > horizon.saturating_add(LATE)) {
            self.work.unsent += self.schedule.give_up();
        }
    }

    fn is_over(&mut self) -> bool {
        let drained = self.in_flight == 0 && self.waiting.is_empty();
        self.shared.stop.load(Ordering::Relaxed) || (drained && self.schedule.next_at().is_none())
    }

    /// Nanoseconds until something is to be done.
    fn wait_for(&mut self) -> u64 {
        let due = self.schedule.next_at().unwrap_or(u64::MAX);
        let deadline = self.first_deadline().map_or(u64::MAX, |deadline| deadline.at);
        let queued = self.waiting.front().map_or(u64::MAX, |due| due.at.saturating_add(self.shared.timeout));
        if !self.waiting.is_empty() && self.has_room() {
            return 0;
        }
        let next = due.min(deadline).min(queued).min(self.tally.second_ends());
        next.saturating_sub(self.now()).min(LONGEST_WAIT)
    }

    fn first_deadline(&mut self) -> Option<Deadline> {
        let slots = &self.slots;
        self.deadlines.first(|deadline| {
            slots[deadline.slot].exchange.is_some_and(|exchange| exchange.number == deadline.exchange)
        })
    }

    /// Ends what has waited too long.
    fn expire(&mut self, now: u64) {
        while let Some(deadline) = self.first_deadline().filter(|deadline| deadline.at <= now) {
            let what = if self.slots[deadline.slot].connected { "the answer" } else { "the connection" };
            self.fail(deadline.slot, Failure::Timeout, || format!("waited too long for {what}"));
        }
        while self.waiting.front().is_some_and(|due| due.at.saturating_add(self.shared.timeout) <= now) {
            let Some(due) = self.waiting.pop_front() else { return };
            self.tally.failed(due.at, now, Failure::Timeout, || "waited too long for a free connection".to_owned());
            self.schedule.settled(now, false);
        }
    }

    /// Tells of each second that is over.
    fn tick(&mut self, now: u64, seconds: &SyncSender<Second>) {
        while self.tally.second_ends() <= now {
            self.send_second(seconds);
        }
    }

    fn send_second(&mut self, seconds: &SyncSender<Second>) {
        let mut second = self.tally.end_second();
        second.in_flight = (self.in_flight + self.waiting.len()) as u64;
        second.waiting = self.waiting.len() as u64;
        self.work.most_in_flight = self.work.most_in_flight.max(second.in_flight);
        self.count_late(&mut second);
        // A reader that does not keep up misses some of the view; the measurement is not held up for it.
        let _not_seen = seconds.try_send(second);
    }

    /// Requests that are still under way and past a limit already have missed it.
    fn count_late(&self, second: &mut Second) {
        let now = self.now();
        for (constraint, misses) in self.tally.constraints().iter().zip(&mut second.misses) {
            let Some((metric, limit)) = constraint.time_limit() else { continue };
            let on_connections = self.slots.iter().filter_map(|slot| {
                let counts = match metric {
                    Metric::Latency => true,
                    Metric::TimeToFirstToken => !slot.body.has_token(),
                    Metric::InterTokenLatency | Metric::TimePerOutputToken => false,
                };
                slot.exchange.filter(|_| counts).map(|exchange| exchange.due.at)
            });
            let waiting = self
                .waiting
                .iter()
                .map(|due| due.at)
                .filter(|_| matches!(metric, Metric::Latency | Metric::TimeToFirstToken));
            let late = |at: &u64| self.tally.measures(*at) && now.saturating_sub(*at) > limit;
            let late = on_connections.chain(waiting).filter(late).count() as u64;
            misses.missed += late;
            misses.total += late;
        }
    }
}

/// Nanoseconds that this thread has been on a processor; 0 where the kernel does not count them.
fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}
