//! When each request is due, planned beforehand: a function of pattern and seed alone.

use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::units::{index, whole};

/// How requests arrive when they do not wait for each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Independent users: exponential gaps of mean `1 / rate` (rate in requests per second).
    Poisson { rate: f64 },
    /// Evenly spaced.
    Constant { rate: f64 },
    /// Recorded offsets from the start, in order.
    Trace { offsets: Arc<[Duration]> },
}

impl Pattern {
    /// Requests per second that the pattern asks for.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Poisson { rate } | Self::Constant { rate } => *rate,
            Self::Trace { offsets } => {
                let span = offsets.last().map_or(0.0, Duration::as_secs_f64);
                if span > 0.0 { offsets.len() as f64 / span } else { 0.0 }
            }
        }
    }
}

/// The plan: offsets from the start of the run, never decreasing.
#[derive(Clone, Debug)]
pub struct Arrivals {
    pattern: Pattern,
    random: ChaCha8Rng,
    /// Seconds of the last Poisson arrival.
    elapsed: f64,
    next: u64,
}

impl Arrivals {
    /// The same pattern and seed give the same plan on every machine.
    pub fn new(pattern: Pattern, seed: u64) -> Self {
        Self { pattern, random: ChaCha8Rng::seed_from_u64(seed), elapsed: 0.0, next: 0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let number = self.next;
        self.next += 1;
        match &self.pattern {
            Pattern::Poisson { rate } => {
                self.elapsed += exponential(&mut self.random) / rate;
                Some(offset(self.elapsed))
            }
            Pattern::Constant { rate } => Some(offset(number as f64 / rate)),
            Pattern::Trace { offsets } => offsets.get(index(number)).copied(),
        }
    }
}

/// An exponential variate of mean 1.
pub fn exponential(random: &mut ChaCha8Rng) -> f64 {
    // 1 - u is in (0, 1], so that the logarithm is finite. libm: the same digits everywhere.
    let uniform: f64 = random.random();
    -libm::log(1.0 - uniform)
}

fn offset(seconds: f64) -> Duration {
    Duration::from_nanos(whole(seconds * 1e9))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_poisson_plan_is_known_from_its_seed() {
        let plan: Vec<u128> =
            Arrivals::new(Pattern::Poisson { rate: 1000.0 }, 1).take(4).map(|at| at.as_micros()).collect();
        assert_eq!(plan, [514, 598, 1506, 1754]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let mut last = 0.0;
        let gaps: Vec<f64> = Arrivals::new(Pattern::Poisson { rate: 50.0 }, 7)
            .take(20_000)
            .map(|at| {
                let gap = at.as_secs_f64() - last;
                last = at.as_secs_f64();
                gap
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / 20_000.0;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean * 50.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() * 50.0 - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let last = Arrivals::new(Pattern::Constant { rate: 3.0 }, 0).nth(3_000_000);
        assert_eq!(last, Some(Duration::from_secs(1_000_000)));
    }

    #[test]
    fn a_trace_ends() {
        let offsets: Arc<[Duration]> = [1, 2, 2].map(Duration::from_secs).into();
        let pattern = Pattern::Trace { offsets };
        assert!((pattern.rate() - 1.5).abs() < 1e-9);
        assert_eq!(Arrivals::new(pattern, 0).count(), 3);
    }

    proptest! {
        #[test]
        fn plans_never_go_back_in_time(rate in 0.01..1e6_f64, seed: u64) {
            let plan: Vec<Duration> = Arrivals::new(Pattern::Poisson { rate }, seed).take(200).collect();
            prop_assert!(plan.is_sorted());
        }
    }
}
