//! What one thread of the generator counts; threads are added up at the end.

use std::sync::Arc;

use super::histogram::{Counts, Times};
use crate::load::constraint::{Constraint, Metric};
use crate::load::outcome::Failure;
use crate::load::stream::TokenTimes;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// How often a constraint was missed, of how many chances.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Misses {
    pub missed: u64,
    pub total: u64,
}

/// Sums over the measured part of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests that were taken up by the generator.
    pub dispatched: u64,
    pub ok: u64,
    /// By class, in the order of [`Failure::ALL`].
    pub failed: [u64; Failure::ALL.len()],
    /// One message of each class.
    pub examples: [Option<String>; Failure::ALL.len()],
    /// Answers that meet every limit on times.
    pub good: u64,
    /// In the order of [`Metric::ALL`].
    pub metrics: [Times; Metric::ALL.len()],
    /// From the first byte written to the end of the answer.
    pub service: Times,
    /// How much later than planned the generator took requests up.
    pub delay: Times,
    pub body_bytes: u64,
    pub tokens: u64,
    pub prompt_tokens: u64,
    /// In the order of the constraints.
    pub misses: Vec<Misses>,
    /// When the last request was taken up and the last answer came, in nanoseconds since the start.
    pub last_dispatch: u64,
    pub last_finish: u64,
}

/// One second of a run, as it went.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Seconds since the warm-up ended; below zero during it.
    pub index: i64,
    pub started: u64,
    pub ok: u64,
    pub failed: u64,
    pub latency: Counts,
    /// Under way at the end of the second.
    pub in_flight: u64,
    /// Of these, waiting for a connection.
    pub waiting: u64,
    /// Misses so far, with requests under way that are late already.
    pub misses: Vec<Misses>,
}

/// A good answer.
#[derive(Debug)]
pub struct Answer<'a> {
    pub due: u64,
    pub written: u64,
    pub finished: u64,
    pub body_bytes: u64,
    pub tokens: Option<&'a TokenTimes>,
}

/// Counts for one thread.
#[derive(Debug)]
pub struct Tally {
    constraints: Arc<[Constraint]>,
    measured_from: u64,
    measured: Measured,
    second: Second,
    latencies: Times,
}

impl Measured {
    /// Nothing yet.
    pub fn new(constraints: usize) -> Self {
        Self {
            dispatched: 0,
            ok: 0,
            failed: [0; Failure::ALL.len()],
            examples: [const { None }; Failure::ALL.len()],
            good: 0,
            metrics: std::array::from_fn(|_| Times::default()),
            service: Times::default(),
            delay: Times::default(),
            body_bytes: 0,
            tokens: 0,
            prompt_tokens: 0,
            misses: vec![Misses::default(); constraints],
            last_dispatch: 0,
            last_finish: 0,
        }
    }

    /// Times of a metric.
    pub fn metric(&self, metric: Metric) -> &Times {
        &self.metrics[metric as usize]
    }

    /// Failed requests of all classes.
    pub fn failures(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Self) {
        self.dispatched += other.dispatched;
        self.ok += other.ok;
        self.good += other.good;
        self.body_bytes += other.body_bytes;
        self.tokens += other.tokens;
        self.prompt_tokens += other.prompt_tokens;
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine += theirs;
        }
        for (mine, theirs) in self.examples.iter_mut().zip(&other.examples) {
            *mine = mine.take().or_else(|| theirs.clone());
        }
        for (mine, theirs) in self.metrics.iter_mut().zip(&other.metrics) {
            mine.add(theirs);
        }
        self.service.add(&other.service);
        self.delay.add(&other.delay);
        add_misses(&mut self.misses, &other.misses);
        self.last_dispatch = self.last_dispatch.max(other.last_dispatch);
        self.last_finish = self.last_finish.max(other.last_finish);
    }
}

/// Adds misses of the same constraints.
pub fn add_misses(mine: &mut [Misses], theirs: &[Misses]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.missed += theirs.missed;
        mine.total += theirs.total;
    }
}

impl Tally {
    /// Requests due before `measured_from` (nanoseconds since the start) are the warm-up.
    pub fn new(constraints: Arc<[Constraint]>, measured_from: u64) -> Self {
        let measured = Measured::new(constraints.len());
        let index = second_of(0, measured_from);
        let second = Second { index, ..Second::default() };
        Self { constraints, measured_from, measured, second, latencies: Times::default() }
    }

    /// A request that was due is taken up.
    pub fn dispatched(&mut self, due: u64, now: u64) {
        self.second.started += 1;
        if due >= self.measured_from {
            self.measured.dispatched += 1;
            self.measured.delay.record(now.saturating_sub(due));
            self.measured.last_dispatch = self.measured.last_dispatch.max(now);
        }
    }

    /// A good answer came.
    pub fn answered(&mut self, answer: &Answer<'_>) {
        let latency = answer.finished.saturating_sub(answer.due);
        let measured = answer.due >= self.measured_from;
        self.second.ok += 1;
        if measured || self.second.index < 0 {
            self.latencies.record(latency);
        }
        if !measured {
            return;
        }
        let sums = &mut self.measured;
        sums.ok += 1;
        sums.body_bytes += answer.body_bytes;
        sums.last_finish = sums.last_finish.max(answer.finished);
        sums.service.record(answer.finished.saturating_sub(answer.written));
        sums.metrics[Metric::Latency as usize].record(latency);
        if let Some(tokens) = answer.tokens {
            sums.record_tokens(answer.due, tokens);
        }
        let mut good = true;
        for (constraint, misses) in self.constraints.iter().zip(&mut sums.misses) {
            good &= judge(constraint, answer, latency, misses);
        }
        sums.good += u64::from(good);
    }

    /// A request failed.
    pub fn failed(&mut self, due: u64, now: u64, class: Failure, message: impl FnOnce() -> String) {
        self.second.failed += 1;
        if due < self.measured_from {
            return;
        }
        let sums = &mut self.measured;
        sums.failed[class as usize] += 1;
        sums.examples[class as usize].get_or_insert_with(message);
        sums.last_finish = sums.last_finish.max(now);
        for (constraint, misses) in self.constraints.iter().zip(&mut sums.misses) {
            if !matches!(constraint, Constraint::Time { metric: Metric::InterTokenLatency, .. }) {
                misses.missed += 1;
                misses.total += 1;
            }
        }
    }

    /// When the second under way ends.
    pub fn second_ends(&self) -> u64 {
        let end = i128::from(self.measured_from) + i128::from(self.second.index + 1) * i128::from(SECOND);
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// Ends the second; gives it without what is under way.
    pub fn end_second(&mut self) -> Second {
        let next = Second { index: self.second.index + 1, ..Second::default() };
        let mut ended = std::mem::replace(&mut self.second, next);
        ended.latency = self.latencies.counts();
        ended.misses.clone_from(&self.measured.misses);
        self.latencies.clear();
        ended
    }

    /// The constraints that are counted.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Whether a request that was due then is measured.
    pub fn measures(&self, due: u64) -> bool {
        due >= self.measured_from
    }

    /// Everything that was measured.
    pub fn finish(self) -> Measured {
        self.measured
    }
}

impl Measured {
    fn record_tokens(&mut self, due: u64, tokens: &TokenTimes) {
        self.tokens += tokens.tokens();
        self.prompt_tokens += tokens.prompt.unwrap_or_default();
        if let Some(first) = tokens.first {
            self.metrics[Metric::TimeToFirstToken as usize].record(first.saturating_sub(due));
        }
        tokens.gaps.iter().for_each(|gap| self.metrics[Metric::InterTokenLatency as usize].record(*gap));
        if let Some(each) = tokens.per_token() {
            self.metrics[Metric::TimePerOutputToken as usize].record(each);
        }
    }
}

/// Counts one answer for one constraint; whether the answer is good in this regard.
fn judge(constraint: &Constraint, answer: &Answer<'_>, latency: u64, misses: &mut Misses) -> bool {
    let Some((metric, limit)) = constraint.time_limit() else {
        misses.total += 1;
        return true;
    };
    if metric == Metric::InterTokenLatency {
        let gaps = answer.tokens.map(|tokens| tokens.gaps.as_slice()).unwrap_or_default();
        misses.total += gaps.len() as u64;
        misses.missed += gaps.iter().filter(|gap| **gap > limit).count() as u64;
        // Of one answer its mean gap counts: single gaps are the percentile's business.
        return gaps.iter().sum::<u64>() <= limit.saturating_mul(gaps.len() as u64);
    }
    let time = match metric {
        Metric::Latency => Some(latency),
        Metric::TimeToFirstToken => {
            answer.tokens.and_then(|tokens| tokens.first).map(|at| at.saturating_sub(answer.due))
        }
        Metric::TimePerOutputToken | Metric::InterTokenLatency => answer.tokens.and_then(TokenTimes::per_token),
    };
    // A single token has no time per token: nothing to miss.
    let good = time.is_none_or(|time| time <= limit);
    misses.total += 1;
    misses.missed += u64::from(!good);
    good
}

fn second_of(at: u64, measured_from: u64) -> i64 {
    let nanos = i128::from(at) - i128::from(measured_from);
    i64::try_from(nanos.div_euclid(i128::from(SECOND))).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn tally(constraints: &[&str], warm_up: u64) -> Tally {
        Tally::new(constraints.iter().map(|text| text.parse().unwrap()).collect(), warm_up)
    }

    fn answer(due: u64, finished: u64) -> Answer<'static> {
        Answer { due, written: due, finished, body_bytes: 1, tokens: None }
    }

    #[test]
    fn the_warm_up_is_seen_but_not_measured() {
        let mut tally = tally(&[], 1_500 * MS);
        assert_eq!(tally.second_ends(), 500 * MS);
        tally.dispatched(0, 0);
        tally.answered(&answer(0, 400 * MS));
        let second = tally.end_second();
        assert_eq!((second.index, second.ok, second.latency.len()), (-2, 1, 1));
        tally.failed(1_499 * MS, 1_600 * MS, Failure::Reset, String::new);
        tally.answered(&answer(1_500 * MS, 1_600 * MS));
        let measured = tally.finish();
        assert_eq!((measured.ok, measured.failures(), measured.dispatched), (1, 0, 0));
    }

    #[test]
    fn failures_miss_every_limit_and_are_no_latency() {
        let mut tally = tally(&["p95<=50ms", "errors<=1%", "itl.p95<=5ms"], 0);
        tally.answered(&answer(0, 50 * MS));
        tally.answered(&answer(0, 51 * MS));
        tally.failed(0, MS, Failure::Connect, || "refused".to_owned());
        tally.failed(0, MS, Failure::Connect, || "again".to_owned());
        let measured = tally.finish();
        assert_eq!(measured.misses[0], Misses { missed: 3, total: 4 });
        assert_eq!(measured.misses[1], Misses { missed: 2, total: 4 });
        assert_eq!(measured.misses[2], Misses::default());
        assert_eq!((measured.good, measured.metric(Metric::Latency).count()), (1, 2));
        assert_eq!(measured.examples[Failure::Connect as usize].as_deref(), Some("refused"));
    }

    #[test]
    fn tokens_have_their_own_limits() {
        let mut tally = tally(&["ttft.p95<=20ms", "itl.p50<=10ms", "tpot.max<=10ms"], 0);
        let tokens = TokenTimes {
            first: Some(30 * MS),
            last: 50 * MS,
            gaps: vec![5 * MS, 15 * MS],
            pieces: 3,
            ..TokenTimes::default()
        };
        tally.answered(&Answer { tokens: Some(&tokens), ..answer(5 * MS, 60 * MS) });
        let measured = tally.finish();
        let missed: Vec<_> = measured.misses.iter().map(|misses| (misses.missed, misses.total)).collect();
        assert_eq!(missed, [(1, 1), (1, 2), (0, 1)]);
        assert_eq!((measured.good, measured.tokens), (0, 3));
    }

    #[test]
    fn threads_add_up() {
        let (mut left, mut right) = (tally(&["p50<=1s"], 0), tally(&["p50<=1s"], 0));
        left.answered(&answer(0, MS));
        right.answered(&answer(0, 3 * MS));
        right.failed(0, 9 * MS, Failure::Body, || "bad".to_owned());
        let (mut sum, right) = (left.finish(), right.finish());
        sum.add(&right);
        assert_eq!((sum.ok, sum.failures(), sum.last_finish, sum.misses[0].total), (2, 1, 9 * MS, 3));
    }
}
