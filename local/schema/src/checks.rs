//! Value validations of one place: bounds, enumerations, formats and their combinations.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::format::Format;
use crate::node::Type;

/// A numeric bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub value: f64,
    pub exclusive: bool,
}

/// A pattern and its text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub text: String,
    pub regex: Regex,
}

/// The value validations of a node, or of a branch of `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// Set only in branches (`x-kubernetes-int-or-string` and published schemas use it).
    pub kind: Option<Type>,
    pub enumeration: Vec<Value>,
    pub required: Vec<String>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Pattern>,
    pub format: Option<Format>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Checks>,
    pub any_of: Vec<Checks>,
    pub one_of: Vec<Checks>,
    pub not: Option<Box<Checks>>,
    /// Set only in branches: a node has its fields' checks in its fields' nodes.
    pub properties: BTreeMap<String, Checks>,
    pub items: Option<Box<Checks>>,
}
