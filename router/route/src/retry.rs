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

/// What the route table says of the endpoint that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// It is still admitted.
    Admitted,
    /// It has left the table: it was ending, and the reset was its end and no effect of the request.
    Left,
}

/// One paid repeat, and one free one for a stale connection.
///
/// | failure | any request | inference call | idempotent |
/// | --- | --- | --- | --- |
/// | no connection, or never written on a new one | paid | paid | paid |
/// | never written on a kept connection | stale | stale | stale |
/// | reset on a kept connection | no | stale | stale |
/// | reset on a new connection, endpoint admitted | no | no: the request itself may have ended it | paid |
/// | reset on a new connection, endpoint has left | no | paid | paid |
/// | time ran out | no | no | no |
///
/// Nothing without its body at hand is repeated; a second stale connection costs like any other repeat.
pub fn decide(failure: Failure, request: Repeatable, repeats: Repeats, seen: Seen) -> Repeat {
    let paid = if repeats.paid == 0 { Repeat::Paid } else { Repeat::No };
    let stale = if repeats.stale == 0 { Repeat::Stale } else { paid };
    match failure {
        _ if !request.body_kept => Repeat::No,
        Failure::Connect | Failure::NotWritten { reused: false } => paid,
        Failure::NotWritten { reused: true } => stale,
        Failure::Reset { reused: true } if request.idempotent || request.inference => stale,
        Failure::Reset { reused: false } if request.idempotent => paid,
        Failure::Reset { reused: false } if request.inference && seen == Seen::Left => paid,
        Failure::Reset { .. } | Failure::Timeout => Repeat::No,
    }
}

/// Whether a repeat hangs on the endpoint's leaving: then it is worth a short wait for the table to say so.
pub fn depends_on_leaving(failure: Failure, request: Repeatable, repeats: Repeats) -> bool {
    let with = |seen| decide(failure, request, repeats, seen);
    with(Seen::Admitted) == Repeat::No && with(Seen::Left) != Repeat::No
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
    fn repeats_by_failure_request_and_endpoint() {
        use Failure::{Connect, NotWritten, Reset, Timeout};
        use Repeat::{No, Paid, Stale};
        let inference = Repeatable { inference: true, ..ANY };
        let idempotent = Repeatable { idempotent: true, ..ANY };
        let table = [
            (Connect, Seen::Admitted, [Paid, Paid, Paid]),
            (NotWritten { reused: false }, Seen::Admitted, [Paid, Paid, Paid]),
            (NotWritten { reused: true }, Seen::Admitted, [Stale, Stale, Stale]),
            (Reset { reused: true }, Seen::Admitted, [No, Stale, Stale]),
            (Reset { reused: true }, Seen::Left, [No, Stale, Stale]),
            (Reset { reused: false }, Seen::Admitted, [No, No, Paid]),
            (Reset { reused: false }, Seen::Left, [No, Paid, Paid]),
            (Timeout, Seen::Left, [No, No, No]),
        ];
        for (failure, seen, expected) in table {
            let none = Repeats::default();
            let decided = [ANY, inference, idempotent].map(|request| decide(failure, request, none, seen));
            assert_eq!(decided, expected, "{failure:?} {seen:?}");
            let spent = Repeats { stale: 1, paid: 1 };
            let bare = Repeatable { body_kept: false, ..idempotent };
            for request in [ANY, inference, idempotent] {
                assert_eq!(decide(failure, request, spent, seen), No, "{failure:?} {seen:?} spent");
            }
            assert_eq!(decide(failure, bare, none, seen), No, "{failure:?} {seen:?} without its body");
        }
        assert_eq!(decide(NotWritten { reused: true }, ANY, Repeats { stale: 1, paid: 0 }, Seen::Admitted), Paid);
    }

    #[test]
    fn only_an_inference_call_reset_on_a_new_connection_hangs_on_the_table() {
        let (inference, none) = (Repeatable { inference: true, ..ANY }, Repeats::default());
        assert!(depends_on_leaving(Failure::Reset { reused: false }, inference, none));
        assert!(!depends_on_leaving(Failure::Reset { reused: false }, ANY, none));
        assert!(!depends_on_leaving(Failure::Reset { reused: true }, inference, none));
        assert!(!depends_on_leaving(Failure::Reset { reused: false }, inference, Repeats { stale: 0, paid: 1 }));
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
