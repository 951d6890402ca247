//! Why a trial is started, for people.

use serde::{Deserialize, Serialize};

use crate::suggest::Reason;

/// Why a candidate is tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// It is what runs now: everything is compared with it.
    Baseline,
    /// Part of the start design.
    Start,
    /// The model expects this share of improvement.
    #[serde(rename_all = "camelCase")]
    Model { expected_improvement: f64 },
    /// One step from the best, where the model expects little of anything.
    #[serde(rename_all = "camelCase")]
    Neighbour { expected_improvement: f64 },
    /// Next by a search without a model.
    Listed,
    /// Measured again, as the best but so many.
    Confirm { rank: usize },
    /// Measured again, because the gain is over this.
    Compare,
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Start => Self::Start,
            Reason::Model { expected_improvement } => Self::Model { expected_improvement },
            Reason::Neighbour { expected_improvement } => Self::Neighbour { expected_improvement },
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Baseline => write!(formatter, "what runs now, to compare with"),
            Self::Start => write!(formatter, "start: nothing is known yet"),
            // Before anything is good each candidate is compared with the worst, and the share says nothing.
            Self::Model { expected_improvement } if *expected_improvement > 10.0 => {
                write!(formatter, "the model expects the most of it")
            }
            Self::Model { expected_improvement } => {
                write!(formatter, "the model expects {:.1} % more", expected_improvement * 100.0)
            }
            Self::Neighbour { .. } => write!(formatter, "one step from the best"),
            Self::Listed => write!(formatter, "next in order"),
            Self::Confirm { rank: 0 } => write!(formatter, "again, for longer: it looks best"),
            Self::Confirm { .. } => write!(formatter, "again, for longer: it may be the best"),
            Self::Compare => write!(formatter, "again, for longer: it is what the gain is over"),
        }
    }
}
