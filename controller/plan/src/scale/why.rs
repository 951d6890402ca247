//! Why a predictor has the number of pods that it has: `status.predictorStatuses[].scaleReason`.

use std::fmt;

/// The rule behind a decision. The words do not change from tick to tick: a status is only written when the rule or
/// the number is another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// No router told anything lately.
    NoData,
    /// The rules ask for fewer, and a part of the routers is silent.
    RoutersSilent,
    /// The average over the window.
    Demand,
    /// The demand over the panic window was at least twice what the admitted pods carry, less than a window ago.
    Burst,
    /// What was there when the controller, or its data, started again.
    Started,
    /// No pod, and nobody asks.
    Asleep,
    /// A request waits and there was no pod.
    Woken,
    /// No demand, and the time until the last pod goes is not over.
    Idle,
    /// Fewer would do, for less time than `scaleDownDelay`.
    Delayed,
    /// At most one half goes at once.
    ScaleDownRate,
    /// The demand asks for more, and `maxScaleUpRate` waits for the pods that start.
    ScaleUpRate,
    /// The demand asks for more, and no pod of this predictor has ever been seen ready.
    FirstPods,
    /// `minReplicas` is enough.
    Minimum,
    /// The demand asks for more than `maxReplicas`.
    Maximum,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoData => "kept: no router reports",
            Self::RoutersSilent => "kept: not every router reports",
            Self::Demand => "follows the average demand",
            Self::Burst => "burst: grows at once, shrinks after a calm window",
            Self::Started => "kept after a start until the window is full",
            Self::Asleep => "asleep: no demand",
            Self::Woken => "woken by a waiting request",
            Self::Idle => "no demand: sleeps after window and grace",
            Self::Delayed => "kept for scaleDownDelay",
            Self::ScaleDownRate => "shrinks by half at most at once",
            Self::ScaleUpRate => "limited by maxScaleUpRate until more pods are ready",
            Self::FirstPods => "limited until a first pod is ready",
            Self::Minimum => "minReplicas is enough",
            Self::Maximum => "limited by maxReplicas",
        })
    }
}
