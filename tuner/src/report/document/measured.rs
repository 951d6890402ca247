//! What was measured, and what the model makes of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decision::Interval;

/// A candidate that was measured again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recheck {
    /// The candidate.
    pub candidate: usize,
    /// Its values.
    pub settings: Vec<String>,
    /// The objective during the search.
    pub search: Option<f64>,
    /// The objective in each longer measurement.
    pub again: Vec<f64>,
    /// Whether each longer measurement met every constraint.
    pub met: Vec<bool>,
    /// How many of the longer measurements failed.
    pub failed: usize,
    /// Whether it is the recommended one.
    pub recommended: bool,
}

impl Recheck {
    /// The longer measurements over that of the search.
    pub fn difference(&self) -> Option<f64> {
        let search = self.search.filter(|value| *value > 0.0)?;
        let mean = self.again.iter().sum::<f64>() / self.again.len() as f64;
        (!self.again.is_empty()).then_some(mean / search)
    }
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrialRow {
    /// Its number, from 1.
    pub number: usize,
    /// Its candidate.
    pub candidate: usize,
    /// The candidate's values.
    pub settings: Vec<String>,
    /// What it was for.
    pub purpose: Purpose,
    /// What came of it.
    pub outcome: TrialOutcome,
    /// Why it was tried.
    pub why: String,
    /// What happened, for people.
    pub reason: String,
    /// Last lines of the service's log, where it failed.
    pub log: Vec<String>,
    /// The objective's value.
    pub objective: Option<f64>,
    /// Everything that was measured.
    pub metrics: BTreeMap<String, f64>,
    /// Cost an hour of its candidate.
    pub cost_per_hour: Option<f64>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// The best objective so far that met every constraint.
    pub best: Option<f64>,
    /// The load generator was what was measured.
    pub generator_bound: bool,
}

/// What a trial was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// To find better candidates.
    #[default]
    Search,
    /// To measure a good one for longer.
    Confirm,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrialOutcome {
    /// Measured, and every constraint held.
    Met,
    /// Measured, and a constraint did not hold.
    Missed,
    /// It did not run.
    Failed,
    /// The machine failed: it says nothing of the candidate.
    Void,
    /// It has not ended.
    #[default]
    Running,
}

/// What one parameter explains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Importance {
    /// The parameter.
    pub parameter: String,
    /// Share of the variance by itself.
    pub alone: f64,
    /// Share with all its interactions.
    pub total: f64,
}

/// One other value of one parameter, the rest as recommended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The parameter.
    pub parameter: String,
    /// Its other value.
    pub level: String,
    /// The objective expected there.
    pub objective: Interval,
    /// Probability that it runs and meets every constraint.
    pub probability: f64,
    /// Whether that candidate was tried.
    pub tried: bool,
}
