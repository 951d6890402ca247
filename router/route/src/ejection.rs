//! Endpoints that keep failing are left out for a while.

use std::time::Duration;

/// Failures in a row that eject an endpoint.
pub const FAILURES: u32 = 5;
/// First ejection; the n-th lasts n times as long.
pub const BASE: Duration = Duration::from_secs(30);
/// The longest ejection.
pub const LONGEST: Duration = Duration::from_mins(5);

/// What is remembered of one endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ejection {
    failures_in_a_row: u32,
    times: u32,
    until: Option<Duration>,
}

impl Ejection {
    /// Whether the endpoint is left out at this time.
    pub fn is_ejected(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When the last ejection ends.
    pub fn until(&self) -> Option<Duration> {
        self.until
    }

    /// A response that shows health ends the row of failures.
    pub fn succeeded(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Counts a connect error or a 5xx; true when this one ejects the endpoint.
    ///
    /// `others_ejected` of the `total` endpoints of the arm are out already.
    pub fn failed(&mut self, now: Duration, others_ejected: usize, total: usize) -> bool {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if self.failures_in_a_row < FAILURES || self.is_ejected(now) || others_ejected >= most_ejected(total) {
            return false;
        }
        self.failures_in_a_row = 0;
        self.times = self.times.saturating_add(1);
        self.until = Some(now + (BASE * self.times).min(LONGEST));
        true
    }
}

/// At most a tenth of an arm, at least one, never the last endpoint.
fn most_ejected(total: usize) -> usize {
    (total / 10).max(1).min(total.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(ejection: &mut Ejection, now: Duration, others: usize, total: usize) -> bool {
        (0..FAILURES).map(|_| ejection.failed(now, others, total)).last().unwrap()
    }

    #[test]
    fn five_failures_in_a_row_eject_longer_each_time() {
        let mut ejection = Ejection::default();
        let mut now = Duration::ZERO;
        for times in 1..=12 {
            assert!(fail(&mut ejection, now, 0, 3));
            let length = (BASE * times).min(LONGEST);
            assert!(ejection.is_ejected(now + length.saturating_sub(Duration::from_millis(1))));
            assert!(!ejection.is_ejected(now + length));
            now += length;
        }
    }

    #[test]
    fn a_success_ends_the_row() {
        let mut ejection = Ejection::default();
        for _ in 0..20 {
            assert!(!ejection.failed(Duration::ZERO, 0, 3));
            ejection.succeeded();
        }
    }

    #[test]
    fn never_the_last_endpoint_and_at_most_a_tenth() {
        assert!(!fail(&mut Ejection::default(), Duration::ZERO, 0, 1));
        assert!(!fail(&mut Ejection::default(), Duration::ZERO, 1, 10));
        assert!(fail(&mut Ejection::default(), Duration::ZERO, 1, 20));
    }
}
