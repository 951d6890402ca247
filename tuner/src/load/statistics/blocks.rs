//! How sure a percentile is: a bootstrap over blocks of time, because requests close to each other fare alike.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::histogram::{Counts, merge, quantile_of};
use crate::load::units::seconds;

/// Blocks that are kept; then neighbours become one.
const MAX_BLOCKS: usize = 512;
/// Fewer blocks say nothing about their spread.
const MIN_BLOCKS: usize = 5;
/// Resamples: enough for the second digit of an interval.
const RESAMPLES: usize = 400;

/// Latencies of equally long stretches of time, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    full: Vec<Counts>,
    /// Seconds of the block that is not full yet.
    pending: Vec<Counts>,
    /// Seconds of each block; 0 means 1.
    span: usize,
}

/// 95 of 100 repetitions are expected in here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Standard deviation of the percentile, in seconds.
    pub deviation: f64,
}

impl Blocks {
    /// Adds the latencies of the next second.
    pub fn push(&mut self, second: Counts) {
        self.pending.push(second);
        if self.pending.len() < self.span.max(1) {
            return;
        }
        let block = self.pending.drain(..).reduce(|left, right| merge(&left, &right)).unwrap_or_default();
        self.full.push(block);
        if self.full.len() > MAX_BLOCKS {
            self.full =
                self.full.chunks(2).map(|pair| pair.iter().fold(Vec::new(), |sum, one| merge(&sum, one))).collect();
            self.span = self.span.max(1) * 2;
        }
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.full.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Interval of a percentile, in seconds; none from fewer than five blocks.
    pub fn interval(&self, quantile: f64, seed: u64) -> Option<Interval> {
        if self.full.len() < MIN_BLOCKS || self.full.iter().all(Vec::is_empty) {
            return None;
        }
        let values: Vec<u64> = {
            let mut values: Vec<u64> = self.full.iter().flatten().map(|(value, _)| *value).collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let indexed: Vec<Vec<(usize, u64)>> = self.full.iter().map(|block| indexes(block, &values)).collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut found: Vec<f64> =
            (0..RESAMPLES).filter_map(|_| resample(&indexed, &values, quantile, &mut random)).collect();
        found.sort_by(f64::total_cmp);
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let variance = found.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / found.len() as f64;
        let at = |share: usize| found.get(found.len() * share / 1000).copied();
        Some(Interval { low: at(25)?, high: at(975)?, deviation: variance.sqrt() })
    }
}

fn indexes(block: &Counts, values: &[u64]) -> Vec<(usize, u64)> {
    block.iter().filter_map(|(value, count)| Some((values.binary_search(value).ok()?, *count))).collect()
}

fn resample(blocks: &[Vec<(usize, u64)>], values: &[u64], quantile: f64, random: &mut ChaCha8Rng) -> Option<f64> {
    let mut sums = vec![0; values.len()];
    for _ in blocks {
        for (index, count) in &blocks[random.random_range(0..blocks.len())] {
            sums[*index] += count;
        }
    }
    let counts: Counts = values.iter().copied().zip(sums).collect();
    counts.iter().any(|(_, count)| *count > 0).then(|| seconds(quantile_of(&counts, quantile)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten latencies of 1 to 10 ms in each of `seconds` seconds.
    fn steady(seconds: usize) -> Blocks {
        let mut blocks = Blocks::default();
        (0..seconds).for_each(|_| blocks.push((1..=10).map(|ms| (ms * 1_000_000, 1)).collect()));
        blocks
    }

    #[test]
    fn equal_blocks_leave_no_doubt() {
        let interval = steady(20).interval(0.5, 1).unwrap();
        assert!((interval.low - 0.005).abs() < 1e-9 && (interval.high - 0.005).abs() < 1e-9);
    }

    #[test]
    fn a_bad_second_widens_the_interval() {
        let mut blocks = steady(19);
        blocks.push(vec![(1_000_000_000, 10)]);
        let interval = blocks.interval(0.95, 1).unwrap();
        assert!(interval.low < 0.02 && interval.high > 0.9, "{interval:?}");
        assert_eq!(Some(interval), blocks.interval(0.95, 1));
    }

    #[test]
    fn few_blocks_say_nothing_and_many_are_joined() {
        assert!(steady(4).interval(0.5, 1).is_none());
        let long = steady(5_000);
        assert!(long.len() <= MAX_BLOCKS && long.len() > MAX_BLOCKS / 4);
        let kept: u64 = long.full.iter().chain(&long.pending).flatten().map(|(_, count)| count).sum();
        assert_eq!(kept, 50_000);
    }
}
