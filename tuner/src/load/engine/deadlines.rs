//! When requests time out. They all have the same timeout, so that a queue is enough.

use std::collections::VecDeque;

/// One request under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadline {
    pub at: u64,
    /// Which request; they only grow.
    pub exchange: u64,
    /// Which connection it is on.
    pub slot: usize,
}

/// Deadlines in the order of their requests.
#[derive(Debug, Default)]
pub struct Deadlines {
    queue: VecDeque<Deadline>,
}

impl Deadlines {
    /// Notes a request that is newer than all others.
    pub fn push(&mut self, deadline: Deadline) {
        self.queue.push_back(deadline);
    }

    /// A request is on another connection now.
    pub fn moved(&mut self, exchange: u64, slot: usize) {
        let index = self.queue.partition_point(|deadline| deadline.exchange < exchange);
        if let Some(deadline) = self.queue.get_mut(index).filter(|deadline| deadline.exchange == exchange) {
            deadline.slot = slot;
        }
    }

    /// The first deadline of a request that is still under way; those before it are forgotten.
    pub fn first(&mut self, alive: impl Fn(&Deadline) -> bool) -> Option<Deadline> {
        while let Some(first) = self.queue.front() {
            if alive(first) {
                return Some(*first);
            }
            self.queue.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_alive_is_next() {
        let mut deadlines = Deadlines::default();
        (0..4).for_each(|number| deadlines.push(Deadline { at: number * 10, exchange: number, slot: 0 }));
        deadlines.moved(2, 5);
        deadlines.moved(99, 5);
        let first = deadlines.first(|deadline| deadline.exchange >= 2);
        assert_eq!(first, Some(Deadline { at: 20, exchange: 2, slot: 5 }));
        assert_eq!(deadlines.queue.len(), 2);
        assert_eq!(deadlines.first(|_| false), None);
    }
}
