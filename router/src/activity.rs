//! Whoever watches the counters may sleep while there are no requests.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use tokio::sync::watch;

/// Wakes those who watch, and costs a request one load while nobody sleeps.
pub struct Activity {
    asleep: AtomicBool,
    began: watch::Sender<u64>,
}

impl Activity {
    /// Nobody sleeps.
    pub fn new() -> Self {
        Self { asleep: AtomicBool::new(false), began: watch::Sender::new(0) }
    }

    /// For one who watches.
    pub fn watcher(&self) -> watch::Receiver<u64> {
        self.began.subscribe()
    }

    /// From now on the watchers want to be told. Whoever calls this looks at the lanes afterwards, and sleeps only when
    /// nothing is there: a request is in its lane before it asks whether anybody sleeps, so that one of the two sees
    /// the other.
    pub fn sleep(&self) {
        self.asleep.store(true, SeqCst);
    }

    /// A request has begun.
    pub fn begin(&self) {
        if self.asleep.load(SeqCst) && self.asleep.swap(false, SeqCst) {
            self.began.send_modify(|count| *count += 1);
        }
    }
}
