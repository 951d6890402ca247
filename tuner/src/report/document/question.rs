//! What was asked, and how to write its numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::quantity::Unit;

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Question {
    /// What is best, in words.
    pub objective: String,
    /// Unit of the objective's values.
    pub unit: Unit,
    /// The objective's metric; none when the cost alone counts.
    pub metric: Option<String>,
    /// Whether less is better.
    pub minimize: bool,
    /// Units of the metrics.
    pub units: BTreeMap<String, Unit>,
    /// Limits, by metric, in the order in which they were asked.
    pub constraints: Vec<(String, Limit)>,
    /// Parameters, in order.
    pub parameters: Vec<String>,
    /// For each parameter, its values.
    pub levels: Vec<Vec<String>>,
    /// How many candidates there are.
    pub candidates: usize,
    /// They are a subset: the product of all values has more.
    pub subset: bool,
    /// How many of them were tried.
    pub tried: usize,
    /// Unit of the costs an hour; none when nothing has a cost.
    pub cost: Option<Unit>,
    /// Why it ended, in words; none while it runs.
    pub end: Option<String>,
}

impl Question {
    /// The metric that counts requests or tokens per second, if the objective is one.
    pub fn rate(&self) -> Option<&str> {
        let metric = self.metric.as_deref()?;
        self.counted(metric).map(|_| metric)
    }

    /// What a rate counts: `requests`, `tokens`.
    pub fn counted(&self, metric: &str) -> Option<&str> {
        self.units.get(metric)?.0.strip_suffix("/s").filter(|counted| matches!(*counted, "requests" | "tokens"))
    }

    /// Unit of money: that of the costs without the hour.
    pub fn money(&self) -> Unit {
        let word = self.cost.as_ref().map_or("", |cost| cost.0.as_str());
        let word = word.split("/h").next().unwrap_or_default().trim_end_matches("per hour").trim();
        Unit::new(word)
    }

    /// Unit of costs under a title that says that they are per hour.
    pub fn hourly(&self) -> Unit {
        self.cost.clone().filter(|cost| cost.0 != "per hour").unwrap_or_default()
    }

    /// Unit of a metric.
    pub fn unit_of(&self, metric: &str) -> Unit {
        self.units.get(metric).cloned().unwrap_or_default()
    }

    /// A metric's value with its unit.
    pub fn show(&self, metric: &str, value: f64) -> String {
        self.unit_of(metric).show(value)
    }

    /// A constraint as people write it: `p95 ≤ 50 ms`.
    pub fn limit(&self, metric: &str, limit: Limit) -> String {
        format!("{metric} {} {}", limit.sign(), self.show(metric, limit.value()))
    }
}

/// A limit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// Values up to this one are good.
    AtMost(f64),
    /// Values from this one on are good.
    AtLeast(f64),
}

impl Default for Limit {
    fn default() -> Self {
        Self::AtMost(f64::MAX)
    }
}

impl Limit {
    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }

    /// Between a metric and the number.
    pub fn sign(self) -> &'static str {
        match self {
            Self::AtMost(_) => "\u{2264}",
            Self::AtLeast(_) => "\u{2265}",
        }
    }

    /// Whether a value keeps it.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    /// By what share of the limit a value is beyond it, where that says something.
    pub fn excess(self, value: f64) -> Option<f64> {
        let share = match self {
            Self::AtMost(limit) => value / limit - 1.0,
            Self::AtLeast(limit) => 1.0 - value / limit,
        };
        Some(share).filter(|share| share.is_finite() && *share > 0.0 && self.value() > 0.0)
    }

    /// That a value does not keep it.
    pub fn missed(self, metric: &str, unit: &Unit, value: Option<f64>) -> String {
        let limit = format!("{} {}", self.sign(), unit.show(self.value()));
        match value {
            Some(value) => format!("{metric} was {}, not {limit}", unit.show(value)),
            None => format!("{metric} was not measured ({limit})"),
        }
    }
}
