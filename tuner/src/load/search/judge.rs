//! Whether a probe meets its constraints, as early as it is sure.

use crate::load::constraint::Constraint;
use crate::load::statistics::{Misses, Second, lower_bound, upper_bound};

/// How sure a probe must be of a miss to be abandoned: it is asked every second, so that 1 in 1000 is not much.
const ABANDON: f64 = 0.999;
/// How sure a certificate is.
const CERTIFY: f64 = 0.95;
/// Seconds in which the queue must have grown each time.
const GROWING: usize = 5;
/// Requests under way that are no queue yet.
const SMALL_QUEUE: u64 = 16;

/// What is known of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It meets the constraints.
    Good,
    /// It misses one.
    Bad,
}

/// Watches one probe.
#[derive(Clone, Debug)]
pub struct Judge {
    constraints: Vec<Constraint>,
    /// Requests under way at the ends of the last seconds.
    queue: Vec<u64>,
}

/// Why a probe need not go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Assessment {
    Undecided,
    /// The constraint of this number is certainly missed.
    Missed {
        constraint: usize,
    },
    /// Requests come faster than they are answered.
    QueueGrows,
}

impl Judge {
    /// For one probe.
    pub fn new(constraints: Vec<Constraint>) -> Self {
        Self { constraints, queue: Vec::new() }
    }

    /// Looks at a second that has passed.
    pub fn watch(&mut self, second: &Second) -> Assessment {
        if second.index < 0 {
            return Assessment::Undecided;
        }
        for (number, (constraint, misses)) in self.constraints.iter().zip(&second.misses).enumerate() {
            let missed = |allowance| lower_bound(misses.missed, misses.total, ABANDON) > allowance;
            if constraint.allowance().is_some_and(missed) {
                return Assessment::Missed { constraint: number };
            }
        }
        self.queue.push(second.in_flight);
        let recent = &self.queue[self.queue.len().saturating_sub(GROWING + 1)..];
        let grows = recent.len() > GROWING && recent.is_sorted_by(|earlier, later| earlier < later);
        let much = recent.last() > recent.first().map(|first| first.saturating_mul(2)).as_ref();
        if grows && much && recent.last().is_some_and(|last| *last > SMALL_QUEUE) {
            return Assessment::QueueGrows;
        }
        Assessment::Undecided
    }
}

impl Verdict {
    /// Of a short probe: the shares as they are seen.
    pub fn of_probe(constraints: &[Constraint], misses: &[Misses]) -> Self {
        Self::when(all(constraints, misses, |allowance, misses| {
            misses.missed as f64 <= allowance * misses.total as f64
        }))
    }

    /// Of a long window: good only when that is certain.
    pub fn of_certificate(constraints: &[Constraint], misses: &[Misses]) -> Self {
        Self::when(all(constraints, misses, |allowance, misses| {
            // No miss at all is all that can be asked where none is allowed.
            misses.missed == 0 && allowance <= 0.0 || upper_bound(misses.missed, misses.total, CERTIFY) <= allowance
        }))
    }

    fn when(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

fn all(constraints: &[Constraint], misses: &[Misses], good: impl Fn(f64, &Misses) -> bool) -> bool {
    let judged = constraints.iter().zip(misses);
    judged
        .filter_map(|(constraint, misses)| Some((constraint.allowance()?, misses)))
        .all(|(allowance, misses)| misses.total > 0 && good(allowance, misses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(index: i64, in_flight: u64, missed: u64, total: u64) -> Second {
        Second { index, in_flight, misses: vec![Misses { missed, total }], ..Second::default() }
    }

    fn p95() -> Vec<Constraint> {
        vec!["p95<=50ms".parse().unwrap()]
    }

    #[test]
    fn a_certain_miss_ends_a_probe_and_a_possible_one_does_not() {
        let mut judge = Judge::new(p95());
        assert_eq!(judge.watch(&second(-1, 0, 100, 100)), Assessment::Undecided, "the warm-up is not judged");
        assert_eq!(judge.watch(&second(0, 3, 8, 100)), Assessment::Undecided);
        assert_eq!(judge.watch(&second(1, 3, 20, 100)), Assessment::Missed { constraint: 0 });
    }

    #[test]
    fn a_queue_that_only_grows_ends_a_probe() {
        let mut judge = Judge::new(p95());
        let seen: Vec<_> =
            (0..6).map(|number| judge.watch(&second(number, 10 + 10 * number.unsigned_abs(), 0, 100))).collect();
        assert_eq!(seen[4..], [Assessment::Undecided, Assessment::QueueGrows]);
        let mut judge = Judge::new(p95());
        assert!([9, 20, 15, 30, 25, 40, 35].iter().enumerate().all(|(number, in_flight)| {
            judge.watch(&second(i64::try_from(number).unwrap(), *in_flight, 0, 100)) == Assessment::Undecided
        }));
    }

    #[test]
    fn a_certificate_needs_more_than_a_probe() {
        let misses = |missed, total| [Misses { missed, total }];
        assert_eq!(Verdict::of_probe(&p95(), &misses(5, 100)), Verdict::Good);
        assert_eq!(Verdict::of_certificate(&p95(), &misses(5, 100)), Verdict::Bad);
        assert_eq!(Verdict::of_certificate(&p95(), &misses(0, 59)), Verdict::Good);
        assert_eq!(Verdict::of_certificate(&p95(), &misses(0, 58)), Verdict::Bad);
        assert_eq!(Verdict::of_probe(&p95(), &misses(0, 0)), Verdict::Bad, "nothing measured is nothing met");
    }
}
