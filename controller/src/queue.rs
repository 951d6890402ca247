//! Work by key: each key waits once, runs once at a time, and backs off on its own after failures.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Waits after the first failure and after many.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
}

impl Backoff {
    /// The wait after so many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.max)
    }
}

/// Keys with the time when each is due.
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner<K> {
    due: HashMap<K, (Instant, u64)>,
    order: BTreeMap<(Instant, u64), K>,
    running: HashSet<K>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        let inner = Inner {
            due: HashMap::new(),
            order: BTreeMap::new(),
            running: HashSet::new(),
            failures: HashMap::new(),
            sequence: 0,
        };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Puts a key in, due at once.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Puts a key in, due after `wait` unless it is due earlier.
    pub fn add_after(&self, key: K, wait: Duration) {
        self.inner.lock().insert(key, Instant::now() + wait);
        self.changed.notify_waiters();
    }

    /// The next key that is due and not running. The caller answers with [`Self::done`] or [`Self::failed`].
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no change is missed in between.
            changed.as_mut().enable();
            let wait = match self.inner.lock().take(Instant::now()) {
                Ok(key) => return key,
                Err(wait) => wait,
            };
            match wait {
                Some(until) => _ = tokio::time::timeout_at(until, changed).await,
                None => changed.await,
            }
        }
    }

    /// The key is done; it may run again.
    pub fn done(&self, key: &K) {
        let mut inner = self.inner.lock();
        inner.running.remove(key);
        inner.failures.remove(key);
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Keys that are due and wait.
    pub fn due(&self) -> usize {
        self.inner.lock().order.range(..(Instant::now(), u64::MAX)).count()
    }

    /// The key failed: it runs again after its backoff, no earlier than `at_least` and up to a quarter later by `jitter`
    /// in 0..1. Whatever wakes it meanwhile comes on top. Returns the wait.
    pub fn failed(&self, key: &K, backoff: Backoff, at_least: Duration, jitter: f64) -> Duration {
        let mut inner = self.inner.lock();
        inner.running.remove(key);
        let failures = inner.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let wait = backoff.after(*failures).mul_f64(1.0 + 0.25 * jitter.clamp(0.0, 1.0)).max(at_least);
        inner.insert(key.clone(), Instant::now() + wait);
        drop(inner);
        self.changed.notify_waiters();
        wait
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn insert(&mut self, key: K, at: Instant) {
        if let Some(&place) = self.due.get(&key) {
            if place.0 <= at {
                return;
            }
            self.order.remove(&place);
        }
        self.sequence += 1;
        let place = (at, self.sequence);
        self.due.insert(key.clone(), place);
        self.order.insert(place, key);
    }

    /// A key that is due and not running, or when to look again.
    fn take(&mut self, now: Instant) -> Result<K, Option<Instant>> {
        let is_free = |key: &&K| !self.running.contains(*key);
        let found = self.order.iter().find(|(_, key)| is_free(key)).map(|(place, key)| (*place, key.clone()));
        match found {
            Some((place, key)) if place.0 <= now => {
                self.order.remove(&place);
                self.due.remove(&key);
                self.running.insert(key.clone());
                Ok(key)
            }
            Some((place, _)) => Err(Some(place.0)),
            None => Err(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) };

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_runs_once_at_a_time() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        let second = tokio::time::timeout(Duration::from_millis(50), queue.next()).await;
        assert!(second.is_err(), "it runs already");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(tokio::time::timeout(Duration::from_mins(1), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_wins() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_mins(1));
        queue.add_after("b", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        assert_eq!(queue.next().await, "b");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_up_to_a_bound_and_are_forgotten() {
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..6 {
            let key = queue.next().await;
            waits.push(queue.failed(&key, BACKOFF, Duration::ZERO, 0.0).as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000]);
        let key = queue.next().await;
        queue.done(&key);
        queue.add("a");
        let key = queue.next().await;
        assert_eq!(queue.failed(&key, BACKOFF, Duration::ZERO, 0.0).as_millis(), 100);
        let key = queue.next().await;
        assert_eq!(queue.failed(&key, BACKOFF, Duration::from_secs(7), 1.0).as_secs(), 7, "the server asked for it");
    }
}
