//! Why a trial is over, or may be soon.

use std::time::Duration;

use modelway_api::{Reason, trial::TrialFailure};

/// A pod that finds no node may still get one that is on its way.
const UNSCHEDULABLE_FOR: Duration = Duration::from_mins(2);
/// Registries and quotas recover.
const STUCK_FOR: Duration = Duration::from_mins(1);

/// Why a trial failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ended {
    pub failure: TrialFailure,
    pub reason: Reason,
    pub message: String,
}

impl Ended {
    /// A failure.
    pub fn new(failure: TrialFailure, reason: Reason, message: impl Into<String>) -> Self {
        Self { failure, reason, message: message.into() }
    }
}

/// What keeps a service or a client from starting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trouble {
    /// What it comes to when it does not pass.
    pub ended: Ended,
    /// How long after the start of the trial it may last; until the deadline when absent.
    pub patience: Option<Duration>,
}

impl Trouble {
    /// The trouble behind a reason.
    pub fn of(reason: Reason, message: impl Into<String>) -> Self {
        let (failure, patience) = match reason {
            Reason::Unschedulable => (TrialFailure::Unschedulable, Some(UNSCHEDULABLE_FOR)),
            Reason::QuotaExceeded | Reason::LimitRangeViolated | Reason::ChildRejected => {
                (TrialFailure::Unschedulable, Some(STUCK_FOR))
            }
            Reason::OOMKilled => (TrialFailure::OutOfMemory, None),
            Reason::CrashLoopBackOff | Reason::ServiceCrashed => (TrialFailure::Crash, None),
            // The same for every candidate.
            _ => (TrialFailure::Infrastructure, Some(STUCK_FOR)),
        };
        Self { ended: Ended::new(failure, reason, message), patience }
    }
}
