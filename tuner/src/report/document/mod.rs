//! What a report says, as data: the one source of every form of it.

mod decision;
mod measured;
mod question;
mod words;

use serde::{Deserialize, Serialize};

pub use decision::{Caution, Change, Choice, Decision, Interval, Promise, Recipe, Verdict, Weight};
pub use measured::{Importance, Purpose, Recheck, Step, TrialOutcome, TrialRow};
pub use question::{Limit, Question};

/// Version of this document. Later versions only add.
pub const VERSION: u32 = 1;

/// Up to so many parameters a person can read all their values in a row.
pub const FEW_PARAMETERS: usize = 6;

/// A report. Numbers are in the units that stand beside them; times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Name of the experiment.
    pub name: String,
    /// What to do.
    pub decision: Decision,
    /// When not to trust it, the gravest first.
    pub cautions: Vec<Caution>,
    /// What was asked.
    pub question: Question,
    /// What the longer measurements say, beside those of the search.
    pub rechecks: Vec<Recheck>,
    /// Measured candidates that no other one beats in every respect, in rising order of cost.
    pub front: Vec<Choice>,
    /// Every trial, in the order in which they began.
    pub trials: Vec<TrialRow>,
    /// What each parameter explains.
    pub importance: Vec<Importance>,
    /// What changes one step around the recommendation.
    pub sensitivity: Vec<Step>,
    /// How it was measured.
    pub provenance: Vec<Group>,
}

/// Facts that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Group {
    /// What they are about.
    pub title: String,
    /// Name and value.
    pub facts: Vec<(String, String)>,
}
