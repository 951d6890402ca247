//! Which request is due next, for one thread of the generator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::num::NonZeroU64;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::arrivals::{Arrivals, Pattern, exponential};
use super::units::{nanos, whole};

/// How long a user waits after the server took no connection: a dead server is not asked in a busy loop.
const BACK_OFF: u64 = 50_000_000;

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// They come whatever the server does.
    Open(Pattern),
    /// So many users; each sends its next request when the answer to its last is here, and it has thought. They think
    /// for exponential times of this mean: users that take equally long fall into step with the batches of a server,
    /// in one of several ways, and the same server then has several speeds.
    Closed { users: NonZeroU64, think: std::time::Duration },
}

/// Where a run ends; the first of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// Nanoseconds since the start.
    pub horizon: Option<u64>,
    /// Requests in all.
    pub requests: Option<u64>,
}

/// One request that is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Due {
    pub sequence: u64,
    /// Nanoseconds since the start.
    pub at: u64,
}

/// The requests of one of several threads. Each thread has every n-th request, or every n-th user.
#[derive(Debug)]
pub struct Schedule {
    kind: Kind,
    end: End,
    thread: u64,
    threads: u64,
}

#[derive(Debug)]
enum Kind {
    Open { arrivals: Box<Peekable<std::iter::Enumerate<Arrivals>>> },
    Closed { ready: BinaryHeap<Reverse<u64>>, think: Box<Think>, taken: u64 },
}

/// Times between an answer and the same user's next request.
#[derive(Debug)]
struct Think {
    mean: f64,
    random: ChaCha8Rng,
}

impl Think {
    /// In nanoseconds.
    fn next(&mut self) -> u64 {
        if self.mean > 0.0 { whole(exponential(&mut self.random) * self.mean * 1e9) } else { 0 }
    }
}

impl Schedule {
    /// For thread `thread` of `threads`.
    pub fn new(source: &Source, seed: u64, end: End, thread: u64, threads: u64) -> Self {
        let kind = match source {
            Source::Open(pattern) => {
                Kind::Open { arrivals: Box::new(Arrivals::new(pattern.clone(), seed).enumerate().peekable()) }
            }
            Source::Closed { users, think } => {
                let mine = (0..users.get()).filter(|user| user % threads == thread);
                // Threads that share a seed would think in step.
                let random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(thread));
                let mut think = Box::new(Think { mean: think.as_secs_f64(), random });
                Kind::Closed { ready: mine.map(|_| Reverse(think.next())).collect(), think, taken: 0 }
            }
        };
        Self { kind, end, thread, threads }
    }

    /// When the next request is due; none when there are no more, or none before an answer comes.
    pub fn next_at(&mut self) -> Option<u64> {
        self.peek().map(|due| due.at)
    }

    /// Takes the next request when it is due.
    pub fn take(&mut self, now: u64) -> Option<Due> {
        let due = self.peek().filter(|due| due.at <= now)?;
        match &mut self.kind {
            Kind::Open { arrivals } => {
                arrivals.next();
            }
            Kind::Closed { ready, taken, .. } => {
                ready.pop();
                *taken += 1;
            }
        }
        Some(due)
    }

    /// The request that a user sent has its answer, or failed before it was sent.
    pub fn settled(&mut self, now: u64, unreachable: bool) {
        if let Kind::Closed { ready, think, .. } = &mut self.kind {
            let pause = if unreachable { think.next().max(BACK_OFF) } else { think.next() };
            ready.push(Reverse(now.saturating_add(pause)));
        }
    }

    /// Gives up what is left; how many requests were planned and are not sent.
    pub fn give_up(&mut self) -> u64 {
        let mut left = 0;
        if matches!(self.kind, Kind::Open { .. }) {
            while self.take(u64::MAX).is_some() {
                left += 1;
            }
        }
        self.end.requests = Some(0);
        left
    }

    fn peek(&mut self) -> Option<Due> {
        let due = match &mut self.kind {
            Kind::Open { arrivals } => loop {
                let (sequence, at) = arrivals.peek().map(|(number, at)| (*number as u64, nanos(*at)))?;
                if sequence % self.threads == self.thread {
                    break Due { sequence, at };
                }
                arrivals.next();
            },
            Kind::Closed { ready, taken, .. } => {
                let Reverse(at) = ready.peek()?;
                Due { sequence: *taken * self.threads + self.thread, at: *at }
            }
        };
        let within = self.end.horizon.is_none_or(|horizon| due.at < horizon)
            && self.end.requests.is_none_or(|requests| due.sequence < requests);
        within.then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    fn all(mut schedule: Schedule) -> Vec<Due> {
        std::iter::from_fn(|| schedule.take(u64::MAX)).collect()
    }

    #[test]
    fn threads_share_one_plan() {
        let source = Source::Open(Pattern::Poisson { rate: 1000.0 });
        let end = End { horizon: Some(1_000 * MS), requests: None };
        let whole = all(Schedule::new(&source, 3, end, 0, 1));
        let mut shared: Vec<Due> = (0..3).flat_map(|thread| all(Schedule::new(&source, 3, end, thread, 3))).collect();
        shared.sort_by_key(|due| due.sequence);
        assert_eq!(whole, shared);
        assert!(whole.iter().all(|due| due.at < 1_000 * MS));
    }

    #[test]
    fn nothing_is_taken_before_it_is_due() {
        let source = Source::Open(Pattern::Constant { rate: 1000.0 });
        let mut schedule = Schedule::new(&source, 1, End { horizon: None, requests: Some(3) }, 0, 1);
        assert_eq!(schedule.take(0), Some(Due { sequence: 0, at: 0 }));
        assert_eq!((schedule.take(MS - 1), schedule.next_at()), (None, Some(MS)));
        assert_eq!(schedule.take(5 * MS), Some(Due { sequence: 1, at: MS }));
        assert_eq!((schedule.give_up(), schedule.next_at()), (1, None));
    }

    fn users(think: Duration, end: End, thread: u64, threads: u64) -> Schedule {
        let source = Source::Closed { users: NonZeroU64::new(2).unwrap(), think };
        Schedule::new(&source, 1, end, thread, threads)
    }

    #[test]
    fn a_user_waits_for_its_answer() {
        let mut schedule = users(Duration::ZERO, End { horizon: Some(100 * MS), requests: None }, 0, 1);
        assert!(schedule.take(0).is_some() && schedule.take(0).is_some());
        assert_eq!(schedule.take(50 * MS), None);
        schedule.settled(15 * MS, false);
        assert_eq!(schedule.next_at(), Some(15 * MS));
        schedule.settled(12 * MS, true);
        assert_eq!(schedule.take(15 * MS).map(|due| due.sequence), Some(2));
        assert_eq!(schedule.next_at(), Some(62 * MS), "a server that takes no connection is left alone for a while");
        schedule.settled(100 * MS, false);
        assert!(schedule.take(62 * MS).is_some());
        assert_eq!(schedule.next_at(), None, "past the horizon");
    }

    #[test]
    fn users_think_for_times_of_the_mean_and_never_in_step() {
        let begun = |thread, threads| {
            let mut schedule = users(Duration::from_millis(5), End { horizon: None, requests: None }, thread, threads);
            let times = std::iter::from_fn(move || {
                let due = schedule.take(u64::MAX)?;
                schedule.settled(due.at, false);
                Some(due.at)
            });
            times.take(20_000).collect::<Vec<u64>>()
        };
        let alone = begun(0, 1);
        let mean = *alone.last().unwrap() as f64 / (alone.len() as f64 / 2.0);
        assert!((mean / 5e6 - 1.0).abs() < 0.05, "{mean} ns between the requests of one user");
        assert_eq!(begun(0, 2), begun(0, 2), "a function of the seed");
        assert_ne!(begun(0, 2), begun(1, 2));
    }
}
