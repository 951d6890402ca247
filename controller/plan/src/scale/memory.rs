//! What one decision leaves for the next.

use std::time::Duration;

use super::Moment;

/// State between the decisions of one predictor; [`Memory::default`] before the first. Lost with the controller: the
/// first decision afterwards starts with care.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Whether the data have come without a gap since the last decision.
    pub(super) follows: bool,
    /// Whether a pod of this predictor has ever been admitted.
    pub(super) proved: bool,
    /// When the first request came after the last sleep: the quiet time before says nothing of the load.
    pub(super) woken: Option<Moment>,
    pub(super) panic: Option<Panic>,
    pub(super) peaks: Peaks,
}

impl Memory {
    /// The same, where it is known that pods of this predictor can become ready (its status says so, after a
    /// controller start): a first wave of pods is then as large as the demand.
    #[must_use]
    pub fn proved(self) -> Self {
        Self { proved: true, ..self }
    }

    /// The same, for pods that are made from another template: whether they become ready is not known.
    #[must_use]
    pub fn unproved(self) -> Self {
        Self { proved: false, ..self }
    }
}

/// A time without shrinking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Panic {
    /// The last moment with a cause.
    pub since: Moment,
    /// Most pods asked for in it.
    pub most: u32,
    /// Whether it is only the start that is the cause.
    pub is_start: bool,
}

/// The largest of the numbers recorded within a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Peaks {
    /// Each is smaller than the ones before it.
    falling: Vec<(Moment, u32)>,
}

impl Peaks {
    /// Records a number and returns the largest of less than `length` ago.
    pub fn record(&mut self, now: Moment, number: u32, length: Duration) -> u32 {
        self.falling.retain(|(at, kept)| *kept > number && now.saturating_sub(*at) < length);
        self.falling.push((now, number));
        self.falling.first().map_or(number, |(_, largest)| *largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_largest_within_the_time() {
        let mut peaks = Peaks::default();
        let minute = Duration::from_mins(1);
        let mut at = |second, number| peaks.record(Duration::from_secs(second), number, minute);
        assert_eq!([at(0, 5), at(2, 3), at(4, 4), at(58, 1), at(60, 1), at(63, 1), at(64, 1)], [5, 5, 5, 5, 4, 4, 1]);
    }

    #[test]
    fn no_time_keeps_nothing() {
        let mut peaks = Peaks::default();
        assert_eq!(peaks.record(Duration::ZERO, 9, Duration::ZERO), 9);
        assert_eq!(peaks.record(Duration::ZERO, 2, Duration::ZERO), 2);
    }
}
