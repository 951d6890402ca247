//! From the wire document to a table that answers requests: everything is checked here, once.

use std::collections::HashSet;
use std::time::Duration;

use modelway_api::route_table::{ArmState, ROUTE_TABLE_VERSION, RouteTableSpec, Rule};
use thiserror::Error;

use crate::key::RouteKey;
use crate::request::RequestView;
use crate::split::{ArmIndex, MAX_ARMS, MAX_WEIGHT, Order, Splitter};
use crate::unit::{UnitSource, is_token, unit};

/// Limits on time end here: nobody waits longer, and a moment that far away can still be told.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// A route table that passed every check.
#[derive(Clone, Debug)]
pub struct Table {
    /// Generation of the document.
    pub generation: i64,
    /// Epoch of the document.
    pub epoch: i64,
    /// Inference that the table belongs to.
    pub inference: String,
    /// The arms in the document's order.
    pub arms: Vec<CompiledArm>,
    /// Limits on time.
    pub timeouts: Timeouts,
    /// Share of requests that may be retried, in percent, and the least number per second.
    pub retry: modelway_api::route_table::RetryBudget,
    /// Limits on held requests.
    pub hold: Hold,
    /// Whether responses name their arm in clear.
    pub debug_headers: bool,
    rules: Vec<CompiledRule>,
    sources: Vec<UnitSource>,
    splitter: Splitter,
}

/// An arm that passed every check.
#[derive(Clone, Debug)]
pub struct CompiledArm {
    /// Predictor name.
    pub name: String,
    /// Raw weight.
    pub weight: u32,
    /// What the controller says about it.
    pub state: ArmState,
    /// Service whose endpoints it has.
    pub service: Option<String>,
    /// Port name in the Service's endpoint slices.
    pub port_name: Option<String>,
    /// Static endpoints.
    pub endpoints: Vec<String>,
    /// Model image.
    pub model: Option<String>,
    /// Concurrent requests that one endpoint takes well, where that is known.
    pub capacity: Option<u32>,
}

/// Limits on time; none = off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// To open a connection.
    pub connect: Option<Duration>,
    /// From the request's end to the response's head.
    pub first_byte: Option<Duration>,
    /// Between two parts of a body.
    pub idle: Option<Duration>,
    /// The whole exchange.
    pub total: Option<Duration>,
}

/// Limits on held requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hold {
    /// How many at a time.
    pub max_requests: u32,
    /// How many bytes of bodies in memory at a time.
    pub max_bytes: u64,
    /// How long each.
    pub max_age: Duration,
}

#[derive(Clone, Debug)]
struct CompiledRule {
    path: Option<String>,
    method: Option<String>,
    header: Option<(String, Vec<u8>)>,
    arm: ArmIndex,
}

/// Why a document cannot be used; the text names the field.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum CompileError {
    /// Written by a newer release, or never valid.
    #[error("version: {0} is not supported, this router reads 1..={ROUTE_TABLE_VERSION}; upgrade the router")]
    Version(u32),
    /// A table routes to something.
    #[error("arms: the table has no arm; name at least one")]
    NoArms,
    /// More arms than an order holds.
    #[error("arms: {0} arms, at most {MAX_ARMS} are possible")]
    TooManyArms(usize),
    /// An arm without a usable name.
    #[error("arms[{0}].name: is empty")]
    ArmName(usize),
    /// Two arms of one name.
    #[error("arms[{index}].name: `{name}` is taken by an earlier arm")]
    RepeatedArm {
        /// Position of the second one.
        index: usize,
        /// The name.
        name: String,
    },
    /// Weight out of range.
    #[error("arms[{index}].weight: {weight} is above {MAX_WEIGHT}")]
    Weight {
        /// Position of the arm.
        index: usize,
        /// Its weight.
        weight: u32,
    },
    /// A static endpoint that is no address.
    #[error("arms[{index}].endpoints: `{endpoint}` is not host:port")]
    Endpoint {
        /// Position of the arm.
        index: usize,
        /// The text.
        endpoint: String,
    },
    /// A rule to nowhere.
    #[error("rules[{index}].predictor: no arm is called `{predictor}`")]
    UnknownArm {
        /// Position of the rule.
        index: usize,
        /// The name it gives.
        predictor: String,
    },
    /// A rule with a part that can never match.
    #[error("rules[{index}].match.{field}: `{value}` can never match; {hint}")]
    Match {
        /// Position of the rule.
        index: usize,
        /// The part.
        field: &'static str,
        /// Its value.
        value: String,
        /// What would match.
        hint: &'static str,
    },
    /// A unit key that names no place, or several.
    #[error(
        "sticky[{0}]: set exactly one of header, cookie (both names of letters, digits and -_.) or clientAddress: true"
    )]
    Sticky(usize),
}

/// Checks a document and prepares it for requests.
pub fn compile(document: &RouteTableSpec, key: &RouteKey) -> Result<Table, CompileError> {
    if !(1..=ROUTE_TABLE_VERSION).contains(&document.version) {
        return Err(CompileError::Version(document.version));
    }
    let arms = compile_arms(document)?;
    let rules = document.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| compile_rule(index, rule, &arms)).collect::<Result<_, _>>()?;
    let sources = document.sticky.iter().enumerate();
    let sources = sources
        .map(|(index, key)| UnitSource::from_document(key).ok_or(CompileError::Sticky(index)))
        .collect::<Result<_, _>>()?;
    let bounded = |milliseconds: u64| Duration::from_millis(milliseconds).min(LONGEST);
    let timeout = |milliseconds| (milliseconds > 0).then(|| bounded(milliseconds));
    Ok(Table {
        generation: document.generation,
        epoch: document.epoch,
        inference: document.inference.clone(),
        arms,
        timeouts: Timeouts {
            connect: timeout(document.timeouts.connect_ms),
            first_byte: timeout(document.timeouts.first_byte_ms),
            idle: timeout(document.timeouts.idle_ms),
            total: timeout(document.timeouts.total_ms),
        },
        retry: document.retry,
        hold: Hold {
            max_requests: document.hold.max_requests,
            max_bytes: document.hold.max_bytes,
            max_age: bounded(document.hold.max_age_ms),
        },
        debug_headers: document.debug_headers,
        rules,
        sources,
        splitter: Splitter::new(key, &document.salt),
    })
}

fn compile_arms(document: &RouteTableSpec) -> Result<Vec<CompiledArm>, CompileError> {
    if document.arms.is_empty() {
        return Err(CompileError::NoArms);
    }
    if document.arms.len() > MAX_ARMS {
        return Err(CompileError::TooManyArms(document.arms.len()));
    }
    let mut names = HashSet::new();
    for (index, arm) in document.arms.iter().enumerate() {
        if arm.name.is_empty() {
            return Err(CompileError::ArmName(index));
        }
        if !names.insert(&arm.name) {
            return Err(CompileError::RepeatedArm { index, name: arm.name.clone() });
        }
        if arm.weight > MAX_WEIGHT {
            return Err(CompileError::Weight { index, weight: arm.weight });
        }
        if let Some(endpoint) = arm.endpoints.iter().find(|endpoint| !is_host_and_port(endpoint)) {
            return Err(CompileError::Endpoint { index, endpoint: endpoint.clone() });
        }
    }
    Ok(document.arms.iter().map(CompiledArm::from).collect())
}

impl From<&modelway_api::route_table::Arm> for CompiledArm {
    fn from(arm: &modelway_api::route_table::Arm) -> Self {
        Self {
            name: arm.name.clone(),
            weight: arm.weight,
            state: arm.state,
            service: arm.service.clone(),
            port_name: arm.port_name.clone(),
            endpoints: arm.endpoints.clone(),
            model: arm.model.clone(),
            capacity: arm.capacity,
        }
    }
}

fn is_host_and_port(endpoint: &str) -> bool {
    endpoint.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(|character: char| character.is_whitespace() || character == '/' || character == '@')
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn compile_rule(index: usize, rule: &Rule, arms: &[CompiledArm]) -> Result<CompiledRule, CompileError> {
    let never = |field, value: &str, hint| CompileError::Match { index, field, value: value.to_owned(), hint };
    let position = arms.iter().position(|arm| arm.name == rule.predictor);
    let position = position.ok_or_else(|| CompileError::UnknownArm { index, predictor: rule.predictor.clone() })?;
    let matches = &rule.matches;
    if let Some(path) = matches.path.as_deref().filter(|path| !path.starts_with('/')) {
        return Err(never("path", path, "a path starts with `/`"));
    }
    if let Some(method) =
        matches.method.as_deref().filter(|method| !is_token(method) || *method != method.to_ascii_uppercase())
    {
        return Err(never("method", method, "methods are upper case"));
    }
    if let Some(header) = matches.header.as_ref().filter(|header| !is_token(&header.name)) {
        return Err(never("header.name", &header.name, "header names are letters, digits and -"));
    }
    Ok(CompiledRule {
        path: matches.path.clone(),
        method: matches.method.clone(),
        header: matches
            .header
            .as_ref()
            .map(|header| (header.name.to_ascii_lowercase(), header.value.clone().into_bytes())),
        arm: ArmIndex::new(position),
    })
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Assignment {
    /// Arms in the order in which they are tried; empty when every weight is 0.
    pub order: Order,
    /// Why this order.
    pub by: AssignedBy,
}

/// What decided an assignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AssignedBy {
    /// A rule: only that arm may answer.
    Rule,
    /// The hash of a unit that comes back to the same arm.
    Unit,
    /// The hash of a random number.
    Chance,
}

impl Table {
    /// The arm of the first rule that matches.
    pub fn match_rule<R: RequestView>(&self, request: &R) -> Option<ArmIndex> {
        self.rules.iter().find(|rule| rule.matches(request)).map(|rule| rule.arm)
    }

    /// Rule first, then the split of the request's unit. `random` is a fresh random number.
    pub fn assign<R: RequestView>(&self, request: &R, random: u64) -> Assignment {
        if let Some(arm) = self.match_rule(request) {
            return Assignment { order: Order::only(arm), by: AssignedBy::Rule };
        }
        let unit = unit(request, &self.sources, random);
        let arms = self.arms.iter().map(|arm| (arm.name.as_str(), arm.weight));
        let order = unit.bytes(|bytes| self.splitter.order(bytes, arms));
        Assignment { order, by: if unit.is_keyed() { AssignedBy::Unit } else { AssignedBy::Chance } }
    }

    /// How long a request may be held: no longer than all of it may take, so that the answer says what it waited for.
    pub fn longest_hold(&self) -> Duration {
        self.timeouts.total.map_or(self.hold.max_age, |total| total.min(self.hold.max_age))
    }

    /// The arm of a name.
    pub fn arm_named(&self, name: &str) -> Option<ArmIndex> {
        self.arms.iter().position(|arm| arm.name == name).map(ArmIndex::new)
    }
}

impl CompiledRule {
    fn matches<R: RequestView>(&self, request: &R) -> bool {
        self.method.as_deref().is_none_or(|method| method == request.method())
            && self.path.as_deref().is_none_or(|prefix| is_path_prefix(prefix, request.path()))
            && self
                .header
                .as_ref()
                .is_none_or(|(name, wanted)| request.header(name).any(|value| value == wanted.as_slice()))
    }
}

/// Prefix at segment boundaries: `/v2` covers `/v2` and `/v2/x`, not `/v20`.
fn is_path_prefix(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use modelway_api::route_table::{Arm, HeaderMatch, RequestMatch, UnitKey};

    use super::*;
    use crate::request::tests::Fake;

    fn arm(name: &str, weight: u32) -> Arm {
        Arm {
            name: name.into(),
            weight,
            state: ArmState::Active,
            service: None,
            port_name: None,
            endpoints: vec!["127.0.0.1:8080".into()],
            model: None,
            capacity: None,
        }
    }

    fn document() -> RouteTableSpec {
        let document = serde_json::json!({
            "version": 1, "generation": 3, "inference": "digits", "epoch": 1, "salt": "uid", "arms": []
        });
        let mut document: RouteTableSpec = serde_json::from_value(document).expect("a document");
        document.arms = vec![arm("v1", 90), arm("v2", 10)];
        document.sticky = vec![UnitKey { header: Some("X-User".into()), ..UnitKey::default() }];
        document
    }

    fn compiled(document: &RouteTableSpec) -> Result<Table, CompileError> {
        compile(document, &RouteKey::new([3; 16]))
    }

    fn refused(change: impl FnOnce(&mut RouteTableSpec)) -> String {
        let mut document = document();
        change(&mut document);
        compiled(&document).expect_err("the document is bad").to_string()
    }

    #[test]
    fn names_the_field_of_a_bad_document() {
        assert!(refused(|document| document.version = 2).starts_with("version: 2"));
        assert!(refused(|document| document.version = 0).starts_with("version: 0"));
        assert!(refused(|document| document.arms.clear()).starts_with("arms: "));
        assert!(refused(|document| document.arms[1].name = "v1".into()).starts_with("arms[1].name: `v1`"));
        assert!(refused(|document| document.arms[1].name.clear()).starts_with("arms[1].name: is empty"));
        assert!(refused(|document| document.arms[0].weight = 2_000_000).starts_with("arms[0].weight: 2000000"));
        assert!(refused(|document| document.arms[0].endpoints[0] = "nohost".into()).starts_with("arms[0].endpoints"));
        assert!(refused(|document| document.arms = vec![arm("a", 1); 17]).starts_with("arms: 17"));
        assert!(refused(|document| document.sticky.push(UnitKey::default())).starts_with("sticky[1]: "));
        let rule = |predictor: &str, matches| Rule { matches, predictor: predictor.into() };
        let any = RequestMatch::default;
        assert!(refused(|document| document.rules.push(rule("v9", any()))).contains("no arm is called `v9`"));
        let path = RequestMatch { path: Some("v2".into()), ..any() };
        assert!(refused(|document| document.rules.push(rule("v1", path))).starts_with("rules[0].match.path"));
        let method = RequestMatch { method: Some("get".into()), ..any() };
        assert!(refused(|document| document.rules.push(rule("v1", method))).starts_with("rules[0].match.method"));
    }

    #[test]
    fn first_rule_whose_parts_all_hold_wins() {
        let mut document = document();
        document.rules = vec![
            Rule {
                matches: RequestMatch {
                    path: Some("/v2".into()),
                    method: Some("POST".into()),
                    header: Some(HeaderMatch { name: "X-Canary".into(), value: "yes".into() }),
                },
                predictor: "v2".into(),
            },
            Rule {
                matches: RequestMatch { path: Some("/admin/".into()), ..RequestMatch::default() },
                predictor: "v1".into(),
            },
        ];
        let table = compiled(&document).expect("a good document");
        let request =
            |path, headers: &[(&'static str, &'static str)]| Fake { method: "POST", path, headers: headers.to_vec() };
        let canary = [("x-canary", "no"), ("x-canary", "yes")];
        let matched = |request: &Fake| table.match_rule(request).map(|arm| table.arms[arm.get()].name.clone());
        assert_eq!(matched(&request("/v2/models", &canary)).as_deref(), Some("v2"));
        assert_eq!(matched(&request("/v2", &canary)).as_deref(), Some("v2"));
        assert_eq!(matched(&request("/v20", &canary)), None);
        assert_eq!(matched(&request("/v2", &[])), None);
        assert_eq!(matched(&request("/admin/x", &[])).as_deref(), Some("v1"));
    }

    #[test]
    fn a_request_is_held_no_longer_than_it_may_take_in_all() {
        let mut document = document();
        document.hold.max_age_ms = 300_000;
        assert_eq!(compiled(&document).expect("a good document").longest_hold(), Duration::from_mins(5));
        document.timeouts.total_ms = 60_000;
        assert_eq!(compiled(&document).expect("a good document").longest_hold(), Duration::from_mins(1));
        document.hold.max_age_ms = 1_000;
        assert_eq!(compiled(&document).expect("a good document").longest_hold(), Duration::from_secs(1));
        (document.hold.max_age_ms, document.timeouts.total_ms) = (u64::MAX, u64::MAX);
        assert_eq!(compiled(&document).expect("a good document").longest_hold(), LONGEST);
    }

    #[test]
    fn a_unit_keeps_its_arm_and_a_rule_stands_alone() {
        let table = compiled(&document()).expect("a good document");
        let user = Fake { method: "POST", path: "/", headers: vec![("x-user", "u1")] };
        let first = table.assign(&user, 1);
        assert_eq!(first, table.assign(&user, 2));
        assert_eq!((first.by, first.order.arms().len()), (AssignedBy::Unit, 2));
        let nobody = Fake { method: "POST", path: "/", headers: vec![] };
        assert_eq!(table.assign(&nobody, 1).by, AssignedBy::Chance);
    }
}
