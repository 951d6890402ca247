//! Whether and when to try again. Pure: the caller waits.

use std::time::Duration;

/// How often and how patiently failed requests are repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, the first one counted.
    pub attempts: u32,
    /// Longest first wait; it doubles with each try.
    pub base: Duration,
    /// Longest wait, also for `Retry-After`.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 5, base: Duration::from_millis(500), cap: Duration::from_secs(30) }
    }
}

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server answered with an error, and perhaps said when to come back.
    Status { code: u16, retry_after: Option<Duration> },
    /// No (whole) answer came.
    Transport,
}

impl RetryPolicy {
    /// How long to wait before try `attempt + 1` after try `attempt` (1, 2, ...) failed; `None`: give up.
    /// `jitter` is uniform in `0..1`.
    pub(crate) fn wait(&self, attempt: u32, failure: Failure, jitter: f64) -> Option<Duration> {
        if attempt >= self.attempts || !is_transient(failure) {
            return None;
        }
        if let Failure::Status { retry_after: Some(after), .. } = failure {
            return Some(after.min(self.cap));
        }
        let ceiling = self.base.saturating_mul(1 << (attempt - 1).min(16)).min(self.cap);
        Some(ceiling.mul_f64(0.5 + jitter / 2.0))
    }
}

fn is_transient(failure: Failure) -> bool {
    match failure {
        Failure::Transport => true,
        Failure::Status { code, .. } => matches!(code, 408 | 425 | 429 | 500 | 502..=504),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Failure {
        Failure::Status { code, retry_after: None }
    }

    #[test]
    fn waits_grow_and_end() {
        let policy = RetryPolicy { attempts: 4, base: Duration::from_secs(1), cap: Duration::from_secs(3) };
        let wait = |attempt, jitter| policy.wait(attempt, Failure::Transport, jitter);
        assert_eq!(wait(1, 1.0), Some(Duration::from_secs(1)));
        assert_eq!(wait(1, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(wait(2, 1.0), Some(Duration::from_secs(2)));
        assert_eq!(wait(3, 1.0), Some(Duration::from_secs(3)));
        assert_eq!(wait(4, 1.0), None);
    }

    #[test]
    fn repeats_only_what_may_pass() {
        let policy = RetryPolicy::default();
        for code in [408, 425, 429, 500, 502, 503, 504] {
            assert!(policy.wait(1, status(code), 0.5).is_some(), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 416, 501] {
            assert!(policy.wait(1, status(code), 0.5).is_none(), "{code}");
        }
    }

    #[test]
    fn obeys_retry_after_within_the_cap() {
        let policy = RetryPolicy::default();
        let after = |seconds| Failure::Status { code: 503, retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(policy.wait(1, after(2), 0.0), Some(Duration::from_secs(2)));
        assert_eq!(policy.wait(1, after(9_999), 0.0), Some(Duration::from_secs(30)));
    }
}
