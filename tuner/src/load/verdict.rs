//! Whether the generator itself was what was measured.

use serde::Serialize;

/// Share of the planned requests that must be sent in time.
const ACHIEVED: f64 = 0.99;
/// The schedule delay (p99) may be a tenth of the median latency or of the tightest limit, between these bounds in
/// seconds: it is part of every latency, so that less of it cannot turn a verdict round.
const DELAY_SHARE: f64 = 0.1;
const DELAY_LEAST: f64 = 0.001;
const DELAY_MOST: f64 = 0.01;

/// What the generator did, in seconds and requests per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conduct {
    /// Only known in the open loop.
    pub requested_rate: Option<f64>,
    pub achieved_rate: f64,
    pub unsent: u64,
    pub delay_p99: f64,
    pub latency_p50: f64,
    /// Of the constraints on times.
    pub tightest_limit: Option<f64>,
    /// Failures for want of something on this machine.
    pub own_failures: u64,
}

/// Why a measurement says more of the generator than of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum Bound {
    /// It sent fewer requests than planned.
    RateNotAchieved { share: f64 },
    /// It was late, by more than does not matter.
    Late { seconds: f64, allowed: f64 },
    /// It had no more files or ports.
    OutOfSockets { requests: u64 },
}

impl std::fmt::Display for Bound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RateNotAchieved { share } => {
                write!(
                    formatter,
                    "it sent {:.1} % of the planned rate; use --threads, or another machine",
                    share * 100.0
                )
            }
            Self::Late { seconds, allowed } => write!(
                formatter,
                "1 % of its requests were more than {:.2} ms late ({:.2} ms do not matter); use --threads, or leave it a core",
                seconds * 1e3,
                allowed * 1e3
            ),
            Self::OutOfSockets { requests } => {
                write!(
                    formatter,
                    "{requests} requests found no free socket on this machine; raise ulimit -n, or limit --max-connections"
                )
            }
        }
    }
}

/// Every reason there is; none means that the server was measured.
pub fn judge(conduct: &Conduct) -> Vec<Bound> {
    let mut reasons = Vec::new();
    if let Some(requested) = conduct.requested_rate.filter(|requested| *requested > 0.0) {
        let share = conduct.achieved_rate / requested;
        if share < ACHIEVED || conduct.unsent > 0 {
            reasons.push(Bound::RateNotAchieved { share });
        }
    }
    let scale = conduct.tightest_limit.map_or(conduct.latency_p50, |limit| limit.max(conduct.latency_p50));
    let allowed = (scale * DELAY_SHARE).clamp(DELAY_LEAST, DELAY_MOST);
    if conduct.delay_p99 > allowed {
        reasons.push(Bound::Late { seconds: conduct.delay_p99, allowed });
    }
    if conduct.own_failures > 0 {
        reasons.push(Bound::OutOfSockets { requests: conduct.own_failures });
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Conduct = Conduct {
        requested_rate: Some(1000.0),
        achieved_rate: 999.0,
        unsent: 0,
        delay_p99: 0.0004,
        latency_p50: 0.002,
        tightest_limit: None,
        own_failures: 0,
    };

    #[test]
    fn a_generator_in_time_is_not_the_limit() {
        assert!(judge(&FINE).is_empty());
        assert!(judge(&Conduct { delay_p99: 0.004, tightest_limit: Some(0.05), ..FINE }).is_empty());
        assert!(judge(&Conduct { requested_rate: None, achieved_rate: 1.0, ..FINE }).is_empty());
    }

    #[test]
    fn each_fault_of_the_generator_is_a_reason() {
        let late = judge(&Conduct { delay_p99: 0.002, ..FINE });
        assert!(matches!(late[..], [Bound::Late { .. }]));
        assert!(judge(&Conduct { delay_p99: 0.009, latency_p50: 1.0, ..FINE }).is_empty());
        assert!(matches!(judge(&Conduct { achieved_rate: 900.0, ..FINE })[..], [Bound::RateNotAchieved { .. }]));
        assert!(matches!(judge(&Conduct { unsent: 1, ..FINE })[..], [Bound::RateNotAchieved { .. }]));
        assert!(matches!(judge(&Conduct { own_failures: 3, ..FINE })[..], [Bound::OutOfSockets { requests: 3 }]));
    }
}
