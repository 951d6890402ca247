//! Distributions of times.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::units::seconds;

/// Finest difference that is told apart, in nanoseconds.
const LOWEST: u64 = 1_000;
/// Longest time; above it counts as this.
const HIGHEST: u64 = 3_600_000_000_000;

/// A histogram of times in nanoseconds, exact to 0.1 %.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

/// Values and how often each came, in order.
pub type Counts = Vec<(u64, u64)>;

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(LOWEST, HIGHEST, 3).expect("the bounds are in order, with 1 to 5 digits"))
    }
}

/// The usual summary, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p999: f64,
    #[serde(rename = "p99.99")]
    pub p9999: f64,
    pub max: f64,
}

impl Times {
    /// Counts one time.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that a share of all do not exceed, in nanoseconds.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile).min(self.0.max())
    }

    /// Mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Largest time in nanoseconds.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Values that came, and how often.
    pub fn counts(&self) -> Counts {
        self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The histogram itself, for export.
    pub fn inner(&self) -> &Histogram<u64> {
        &self.0
    }

    /// The usual summary.
    pub fn summary(&self) -> Summary {
        if self.count() == 0 {
            return Summary::default();
        }
        let at = |quantile| seconds(self.quantile(quantile));
        Summary {
            count: self.count(),
            mean: self.mean() / 1e9,
            min: seconds(self.0.min()),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: seconds(self.max()),
        }
    }
}

/// The time that a share of the counted ones do not exceed; 0 when there are none.
pub fn quantile_of(counts: &Counts, quantile: f64) -> u64 {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let wanted = (quantile * total as f64).ceil().max(1.0);
    let mut seen = 0;
    for (value, count) in counts {
        seen += count;
        if seen as f64 >= wanted {
            return *value;
        }
    }
    0
}

/// Adds counts to counts, both in order.
pub fn merge(left: &Counts, right: &Counts) -> Counts {
    let mut all: Counts = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.0 == b.0 => {
                let both = (a.0, a.1 + b.1);
                left.next();
                right.next();
                both
            }
            (Some(a), Some(b)) if a.0 > b.0 => {
                let value = **b;
                right.next();
                value
            }
            (Some(a), _) => {
                let value = **a;
                left.next();
                value
            }
            (None, Some(b)) => {
                let value = **b;
                right.next();
                value
            }
            (None, None) => return all,
        };
        all.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_a_thousandth() {
        let mut times = Times::default();
        (1..=10_000_u64).for_each(|number| times.record(number * 100_000));
        for (quantile, expected) in [(0.5, 0.5), (0.95, 0.95), (0.999, 0.999)] {
            assert!((seconds(times.quantile(quantile)) / expected - 1.0).abs() < 1.1e-3);
        }
        assert!((seconds(quantile_of(&times.counts(), 0.95)) / 0.95 - 1.0).abs() < 1.1e-3);
        assert_eq!(times.summary().count, 10_000);
    }

    #[test]
    fn times_beyond_the_bounds_are_kept_as_the_bound() {
        let mut times = Times::default();
        times.record(u64::MAX);
        times.record(0);
        assert_eq!(times.count(), 2);
        assert!(times.max() >= HIGHEST);
    }

    #[test]
    fn merged_counts_stay_in_order() {
        let merged = merge(&vec![(1, 2), (5, 1)], &vec![(1, 1), (3, 4), (9, 1)]);
        assert_eq!(merged, [(1, 3), (3, 4), (5, 1), (9, 1)]);
        assert_eq!(quantile_of(&merged, 0.5), 3);
        assert_eq!(quantile_of(&Vec::new(), 0.5), 0);
    }
}
