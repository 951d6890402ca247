//! What to do, and why to doubt it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::question::Limit;

/// What to do, and what it brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// In one word.
    pub verdict: Verdict,
    /// In one line.
    pub headline: String,
    /// What the line rests on.
    pub reason: String,
    /// What to run.
    pub recommended: Option<Choice>,
    /// What runs now.
    pub baseline: Option<Choice>,
    /// By which factor the recommendation is better.
    pub gain: Option<Interval>,
    /// Probability that it runs and that every constraint holds.
    pub probability: Option<f64>,
    /// Probability that it runs.
    pub runs: Option<f64>,
    /// Each constraint at the recommendation.
    pub constraints: Vec<Promise>,
    /// Each parameter, running and recommended.
    pub changes: Vec<Change>,
    /// How to apply it.
    pub apply: Vec<Recipe>,
    /// How to undo it.
    pub undo: Vec<Recipe>,
}

/// The decision in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Run the recommendation: it is better.
    Change,
    /// It is better, but may not be fit.
    Unsure,
    /// It may be better than what runs, by less than is sure.
    Unclear,
    /// What runs is the best that was found.
    Keep,
    /// The best that was found; there is nothing to compare it with.
    Pick,
    /// Candidates ran, and none met the constraints.
    Infeasible,
    /// No candidate ran.
    Failed,
    /// Nothing was measured yet.
    #[default]
    Nothing,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// Middle.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One candidate with what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Choice {
    /// Its number.
    pub candidate: usize,
    /// Its values, in the order of the parameters.
    pub settings: Vec<String>,
    /// Mean of what was measured, by metric.
    pub measured: BTreeMap<String, f64>,
    /// The objective as the model sees it.
    pub objective: Option<Interval>,
    /// Cost an hour.
    pub cost_per_hour: Option<f64>,
    /// Cost of a million requests at the measured rate.
    pub cost_per_million: Option<f64>,
    /// Whether it met every constraint.
    pub meets: bool,
}

/// One constraint at the recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Promise {
    /// The metric.
    pub metric: String,
    /// Its limit.
    pub limit: Limit,
    /// Mean of what was measured at the recommendation; without one, the nearest that any candidate came.
    pub measured: Option<f64>,
    /// Probability that it holds there; none without a recommendation.
    pub probability: Option<f64>,
    /// Without a recommendation: whether any candidate held this limit, taken alone.
    pub ever_met: Option<bool>,
    /// The load generator raised the rate up to this limit: whether that rate was certified to keep it.
    pub certified: Option<bool>,
}

/// One parameter of the recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Change {
    /// The parameter.
    pub parameter: String,
    /// Its running value, where that is known.
    pub from: Option<String>,
    /// Its recommended value.
    pub to: String,
}

/// Something to copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recipe {
    /// What it is.
    pub title: String,
    /// The text, complete.
    pub text: String,
}

/// A reason to doubt the decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caution {
    /// How grave it is.
    pub weight: Weight,
    /// What is the matter, and what to do.
    pub text: String,
}

/// How grave a caution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// The decision may be wrong.
    Grave,
    /// It may be less good than it looks.
    Care,
    /// Good to know.
    Note,
}
