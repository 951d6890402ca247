//! Whether a failed attempt is made again, and how many such repeats the traffic may have.

use std::time::Duration;

use modelway_api::route_table::RetryBudget;

/// Bodies up to this size are kept for a second attempt.
pub const REPLAY_LIMIT: u64 = 64 * 1024;

/// How an attempt ended before any byte of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// No connection came about.
    Connect,
    /// The connection was gone before the request was written.
    NotWritten {
        /// Whether the connection had served before.
        reused: bool,
    },
    /// The connection ended after (part of) the request was written.
    Reset {
        /// Whether the connection had served before.
        reused: bool,
    },
    /// Time ran out.
    Timeout,
}

/// What a request allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repeatable {
    /// The method is idempotent.
    pub idempotent: bool,
    /// It is an inference call of a known protocol.
    pub inference: bool,
    /// Its body is still at hand.
    pub body_kept: bool,
}

/// Attempts so far, beyond the first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Repeats {
    /// Repeats because a kept connection had gone stale: no fault of the endpoint, so they cost no budget.
    pub stale: u8,
    /// Repeats that cost budget.
    pub paid: u8,
}

/// The answer for one failed attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// Give up.
    No,
    /// Again, free, on a new connection.
    Stale,
    /// Again, if the budget has a token, on another endpoint.
    Paid,
}

/// One paid repeat, and one free one for a stale connection.
pub fn decide(failure: Failure, request: Repeatable, repeats: Repeats) -> Repeat {
    let paid = if repeats.paid == 0 { Repeat::Paid } else { Repeat::No };
    let stale = if repeats.stale == 0 { Repeat::Stale } else { paid };
    match failure {
        _ if !request.body_kept => Repeat::No,
        Failure::Connect | Failure::NotWritten { reused: false } => paid,
        Failure::NotWritten { reused: true } => stale,
        Failure::Reset { reused: true } if request.idempotent || request.inference => stale,
        Failure::Reset { reused: false } if request.idempotent => paid,
        Failure::Reset { .. } | Failure::Timeout => Repeat::No,
    }
}

/// A token bucket fed by the traffic and by time.
#[derive(Clone, Debug)]
pub struct Budget {
    millitokens: u64,
    seen_requests: u64,
    seen_at: Duration,
}

impl Budget {
    /// Starts full, so that a router that has just started can repeat.
    pub fn new(limits: RetryBudget, requests: u64, now: Duration) -> Self {
        Self { millitokens: capacity(limits), seen_requests: requests, seen_at: now }
    }

    /// Takes one token. `requests` is the total of requests so far: deposits are made here, not per request.
    pub fn withdraw(&mut self, limits: RetryBudget, requests: u64, now: Duration) -> bool {
        let elapsed = u64::try_from(now.saturating_sub(self.seen_at).as_millis()).unwrap_or(u64::MAX);
        let by_time = elapsed.saturating_mul(limits.min_per_second.into());
        let by_traffic =
            requests.saturating_sub(self.seen_requests).saturating_mul(u64::from(limits.budget_percent) * 10);
        self.seen_at = now;
        self.seen_requests = requests;
        let filled = self.millitokens.saturating_add(by_time).saturating_add(by_traffic);
        self.millitokens = filled.min(capacity(limits));
        let granted = self.millitokens >= 1_000;
        if granted {
            self.millitokens -= 1_000;
        }
        granted
    }
}

/// Ten seconds of the least rate, and a hundred repeats for busy tables: a burst of one endpoint's loss, not more.
fn capacity(limits: RetryBudget) -> u64 {
    let by_traffic = if limits.budget_percent > 0 { 100_000 } else { 0 };
    (u64::from(limits.min_per_second) * 10_000).max(by_traffic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Repeatable = Repeatable { idempotent: false, inference: false, body_kept: true };

    #[test]
    fn unwritten_requests_are_repeated_whatever_they_are() {
        let none = Repeats::default();
        assert_eq!(decide(Failure::Connect, ANY, none), Repeat::Paid);
        assert_eq!(decide(Failure::NotWritten { reused: false }, ANY, none), Repeat::Paid);
        assert_eq!(decide(Failure::NotWritten { reused: true }, ANY, none), Repeat::Stale);
        assert_eq!(decide(Failure::Connect, ANY, Repeats { stale: 1, paid: 0 }), Repeat::Paid);
        assert_eq!(decide(Failure::Connect, ANY, Repeats { stale: 0, paid: 1 }), Repeat::No);
    }

    #[test]
    fn written_requests_only_when_a_second_execution_is_harmless() {
        let none = Repeats::default();
        let inference = Repeatable { inference: true, ..ANY };
        let idempotent = Repeatable { idempotent: true, ..ANY };
        assert_eq!(decide(Failure::Reset { reused: true }, ANY, none), Repeat::No);
        assert_eq!(decide(Failure::Reset { reused: true }, inference, none), Repeat::Stale);
        assert_eq!(decide(Failure::Reset { reused: false }, inference, none), Repeat::No);
        assert_eq!(decide(Failure::Reset { reused: false }, idempotent, none), Repeat::Paid);
        assert_eq!(decide(Failure::Timeout, idempotent, none), Repeat::No);
        assert_eq!(decide(Failure::Connect, Repeatable { body_kept: false, ..ANY }, none), Repeat::No);
    }

    #[test]
    fn budget_is_fed_by_traffic_and_time() {
        let limits = RetryBudget { budget_percent: 20, min_per_second: 3 };
        let mut budget = Budget::new(limits, 0, Duration::ZERO);
        let spent = (0..1_000).filter(|_| budget.withdraw(limits, 0, Duration::ZERO)).count();
        assert_eq!(spent, 100);
        assert!(!budget.withdraw(limits, 4, Duration::ZERO), "4 requests earn 0.8 tokens");
        assert!(budget.withdraw(limits, 5, Duration::ZERO), "5 requests earn a token");
        let by_time = (0..10).filter(|_| budget.withdraw(limits, 5, Duration::from_secs(1))).count();
        assert_eq!(by_time, 3);
    }

    #[test]
    fn a_budget_of_nothing_grants_nothing() {
        let limits = RetryBudget { budget_percent: 0, min_per_second: 0 };
        let mut budget = Budget::new(limits, 0, Duration::ZERO);
        assert!(!budget.withdraw(limits, 1_000, Duration::from_secs(1_000)));
    }
}
