//! How much history is kept: bounded by events and by bytes, forgotten in steps.

use std::collections::VecDeque;

/// Bytes of events kept; objects of usual size reach the limit of events long before.
const BYTES: usize = 64 * 1024 * 1024;

/// Counts what was written since the store was opened, and says what to forget.
#[derive(Debug)]
pub struct Retention {
    /// Events kept for watches that come back.
    events: u64,
    recent: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Retention {
    pub fn new(events: u64) -> Self {
        Self { events, recent: VecDeque::new(), bytes: 0 }
    }

    /// A committed event.
    pub fn note(&mut self, revision: u64, bytes: usize) {
        self.recent.push_back((revision, bytes));
        self.bytes += bytes;
    }

    /// The revision to compact to, once it is worth a transaction.
    pub fn due(&mut self, revision: u64, compacted: u64) -> Option<u64> {
        let too_many = revision >= compacted + self.events + self.step();
        if !too_many && self.bytes < BYTES {
            return None;
        }
        let mut target = revision.saturating_sub(self.events).max(compacted);
        while self.bytes > BYTES / 2
            && let Some((oldest, bytes)) = self.recent.pop_front()
        {
            self.bytes -= bytes;
            target = target.max(oldest);
        }
        while self.recent.front().is_some_and(|(oldest, _)| *oldest <= target) {
            self.bytes -= self.recent.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        (target > compacted).then_some(target)
    }

    /// Compaction is cheap when rare.
    fn step(&self) -> u64 {
        (self.events / 8).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_are_forgotten_in_steps() {
        let mut retention = Retention::new(80);
        for revision in 1..=89 {
            retention.note(revision, 10);
            assert_eq!(retention.due(revision, 0), None);
        }
        retention.note(90, 10);
        assert_eq!(retention.due(90, 0), Some(10));
        assert_eq!(retention.due(90, 10), None);
        assert_eq!(retention.recent.front(), Some(&(11, 10)));
    }

    #[test]
    fn large_events_are_forgotten_earlier() {
        let mut retention = Retention::new(8000);
        for revision in 1..=64 {
            retention.note(revision, 1024 * 1024);
        }
        let target = retention.due(64, 0).unwrap();
        assert_eq!(target, 32);
        assert_eq!(retention.due(64, target), None);
    }
}
