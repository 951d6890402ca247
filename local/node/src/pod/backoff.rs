//! How long to wait before a container starts again.

use std::time::Duration;

/// Delays that double from `base` up to `limit`; a run of at least `reset` forgives all failures before it.
#[derive(Debug, Clone, Copy)]
pub struct BackoffRule {
    pub base: Duration,
    pub limit: Duration,
    pub reset: Duration,
}

impl BackoffRule {
    /// Kubernetes' rule for restarts: 10 s doubling to 300 s, forgiven after 10 minutes.
    pub const RESTART: Self =
        Self { base: Duration::from_secs(10), limit: Duration::from_mins(5), reset: Duration::from_mins(10) };

    /// The wait after `failures` attempts in a row that already had to wait or could have: none after the first.
    pub fn delay(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            n => self.base.saturating_mul(2_u32.saturating_pow(n - 1)).min(self.limit),
        }
    }
}

/// How often a container ended lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts an end after `ran`, and returns the wait before the next start.
    pub fn ended(&mut self, rule: &BackoffRule, ran: Duration) -> Duration {
        if ran >= rule.reset {
            self.failures = 0;
        }
        let delay = rule.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Counts an attempt that could not begin, and returns the wait before the next one.
    pub fn blocked(&mut self, rule: &BackoffRule) -> Duration {
        self.failures = self.failures.saturating_add(1);
        rule.delay(self.failures)
    }

    /// Attempts that failed in a row.
    pub fn failures(self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn restarts_at_once_then_doubles_to_the_limit() {
        let mut backoff = Backoff::default();
        let rule = BackoffRule::RESTART;
        let delays: Vec<u64> = (0..8).map(|_| backoff.ended(&rule, Duration::from_secs(1)).as_secs()).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn forgives_after_a_long_run() {
        let mut backoff = Backoff::default();
        let rule = BackoffRule::RESTART;
        for _ in 0..5 {
            backoff.ended(&rule, Duration::from_secs(1));
        }
        assert_eq!(backoff.ended(&rule, rule.reset), Duration::ZERO);
        assert_eq!(backoff.ended(&rule, Duration::ZERO), rule.base);
    }

    proptest! {
        #[test]
        fn never_exceeds_the_limit_and_never_falls(failures in 0_u32..5000) {
            let rule = BackoffRule::RESTART;
            prop_assert!(rule.delay(failures) <= rule.limit);
            prop_assert!(rule.delay(failures + 1) >= rule.delay(failures));
        }
    }
}
