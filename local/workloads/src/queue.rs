//! A keyed work queue: a key waits once however often it is added, never runs twice at a time, and backs off by its own failures.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::key::Key;

/// First wait after a failure; conflicts with another writer are usually over by then.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// Longest wait after failures.
const LAST_RETRY: Duration = Duration::from_mins(1);

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to do before the next event.
    Done,
    /// Look again after this time even without an event.
    Again(Duration),
    /// Try again with backoff.
    Failed,
}

/// What the queue offers at one instant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Work(Key),
    /// Nothing yet; the next delayed key is due then.
    Wait(Option<Instant>),
}

/// The queue as plain state; time is an argument.
#[derive(Default)]
pub(crate) struct QueueState {
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    running: HashSet<Key>,
    dirty: HashSet<Key>,
    due: BTreeSet<(Instant, Key)>,
    due_of: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
}

impl QueueState {
    /// Makes a key ready now.
    pub(crate) fn add(&mut self, key: Key) {
        if self.running.contains(&key) {
            self.dirty.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Makes a key ready at `at`, or earlier when it already waits for an earlier time.
    pub(crate) fn add_at(&mut self, key: Key, at: Instant) {
        match self.due_of.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => {
                self.due.remove(&(*known, key.clone()));
            }
            None => {}
        }
        self.due_of.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    /// Takes the next key to work on.
    pub(crate) fn take(&mut self, now: Instant) -> Offer {
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.pop_first();
            self.due_of.remove(&key);
            self.add(key);
        }
        let Some(key) = self.ready.pop_front() else {
            return Offer::Wait(self.due.first().map(|(at, _)| *at));
        };
        self.queued.remove(&key);
        self.running.insert(key.clone());
        Offer::Work(key)
    }

    /// Gives a key back after its work.
    pub(crate) fn finish(&mut self, key: Key, outcome: Outcome, now: Instant) {
        self.running.remove(&key);
        match outcome {
            Outcome::Done => {
                self.failures.remove(&key);
            }
            Outcome::Again(delay) => {
                self.failures.remove(&key);
                self.add_at(key.clone(), now + delay);
            }
            Outcome::Failed => {
                let failures = self.failures.entry(key.clone()).or_default();
                // What changed meanwhile may have cured it: that is worth an early try.
                let delay = if self.dirty.remove(&key) { FIRST_RETRY } else { retry_delay(*failures) };
                *failures = failures.saturating_add(1);
                self.add_at(key, now + delay);
                return;
            }
        }
        if self.dirty.remove(&key) {
            self.add(key);
        }
    }
}

fn retry_delay(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LAST_RETRY)
}

/// The shared queue of one controller.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Notify,
}

impl Queue {
    pub(crate) fn add(&self, key: Key) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Waits for the next key. One waiter at a time.
    pub(crate) async fn next(&self) -> Key {
        loop {
            let offer = self.state.lock().take(Instant::now());
            match offer {
                Offer::Work(key) => return key,
                Offer::Wait(Some(at)) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                Offer::Wait(None) => self.changed.notified().await,
            }
        }
    }

    pub(crate) fn finish(&self, key: Key, outcome: Outcome) {
        self.state.lock().finish(key, outcome, Instant::now());
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    #[test]
    fn offers_a_key_once_however_often_it_was_added() {
        let mut queue = QueueState::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.take(Instant::now()), Offer::Work(key("a")));
        assert_eq!(queue.take(Instant::now()), Offer::Wait(None));
    }

    #[test]
    fn runs_a_key_again_when_it_changed_while_running() {
        let now = Instant::now();
        let mut queue = QueueState::default();
        queue.add(key("a"));
        assert_eq!(queue.take(now), Offer::Work(key("a")));
        queue.add(key("a"));
        assert_eq!(queue.take(now), Offer::Wait(None), "never twice at a time");
        queue.finish(key("a"), Outcome::Done, now);
        assert_eq!(queue.take(now), Offer::Work(key("a")));
    }

    #[test]
    fn backs_off_more_with_each_failure_and_forgets_on_success() {
        let mut now = Instant::now();
        let mut queue = QueueState::default();
        queue.add(key("a"));
        for expected in [20, 40, 80] {
            assert_eq!(queue.take(now), Offer::Work(key("a")));
            queue.finish(key("a"), Outcome::Failed, now);
            let due = now + Duration::from_millis(expected);
            assert_eq!(queue.take(now), Offer::Wait(Some(due)));
            now = due;
        }
        assert_eq!(retry_delay(40), LAST_RETRY);
        assert_eq!(queue.take(now), Offer::Work(key("a")));
        queue.finish(key("a"), Outcome::Done, now);
        assert!(queue.failures.is_empty());
    }

    #[test]
    fn keeps_the_earlier_of_two_delays() {
        let now = Instant::now();
        let mut queue = QueueState::default();
        queue.add_at(key("a"), now + Duration::from_secs(5));
        queue.add_at(key("a"), now + Duration::from_secs(2));
        queue.add_at(key("a"), now + Duration::from_secs(9));
        assert_eq!(queue.take(now), Offer::Wait(Some(now + Duration::from_secs(2))));
        assert_eq!(queue.take(now + Duration::from_secs(2)), Offer::Work(key("a")));
        assert_eq!(queue.take(now + Duration::from_secs(20)), Offer::Wait(None));
    }
}
