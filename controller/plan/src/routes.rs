//! The route table of an Inference: which predictors take traffic now, and how much each.

use std::collections::{BTreeMap, BTreeSet};

use modelway_api::{
    Reason,
    duration::{self, DurationError},
    inference::{InferenceSpec, Traffic, TrafficTimeouts},
    labels, names,
    route_table::{Arm, ArmState, HoldLimits, ROUTE_TABLE_VERSION, RetryBudget, RouteTableSpec, Rule, Timeouts},
};
use serde_json::{Value, json};

use crate::{
    context::Context,
    json as read,
    manifest::{annotate, manifest},
    percent::percents,
    plan::{Action, Plan},
    predictor::{HTTP_PORT_NAME, Observed, common_labels},
    world::{Key, Kind},
};

/// What the routers should have, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The table in force or about to be; `None` before anything was ever ready.
    pub table: Option<RouteTableSpec>,
    /// Why the table is not what the spec says.
    pub problem: Option<(Reason, String)>,
}

impl Routes {
    /// Percents by predictor; they sum to 100 when any arm takes traffic.
    pub fn percents(&self) -> BTreeMap<&str, i32> {
        let arms = self.table.as_ref().map_or(&[][..], |table| &table.arms[..]);
        let weights: Vec<u32> =
            arms.iter().map(|arm| if arm.state == ArmState::Broken { 0 } else { arm.weight }).collect();
        arms.iter().map(|arm| arm.name.as_str()).zip(percents(&weights)).collect()
    }
}

/// The observed table.
pub fn observe<'a>(cx: &Context<'a>, inference: &'a Value) -> Option<&'a Value> {
    let live = cx.world.get(Kind::RouteTable, read::text(inference, "/metadata/namespace"), read::name(inference))?;
    read::is_controlled_by(live, read::uid(inference)).then_some(live)
}

/// Names of the arms of the observed table.
pub fn named_arms(table: &Value) -> BTreeSet<&str> {
    read::items(table, "/spec/arms").map(read::name_of).collect()
}

/// The table as it is, for an Inference that is paused.
pub fn as_they_are(cx: &Context, inference: &Value) -> Routes {
    let table = observe(cx, inference).and_then(read_table);
    let problem =
        table.is_none().then(|| (Reason::Paused, "spec.paused is set and there are no routes yet".to_owned()));
    Routes { table, problem }
}

fn read_table(live: &Value) -> Option<RouteTableSpec> {
    serde_json::from_value(live["spec"].clone()).ok()
}

/// Plans the table; writes only when its content changes.
pub fn plan(cx: &Context, plan: &mut Plan, inference: &Value, spec: &InferenceSpec, predictors: &[Observed]) -> Routes {
    let namespace = read::text(inference, "/metadata/namespace");
    let live = observe(cx, inference);
    let current = live.and_then(read_table);
    if live.is_none() && cx.world.get(Kind::RouteTable, namespace, read::name(inference)).is_some() {
        let key = Key::new(Kind::RouteTable, namespace, read::name(inference));
        return Routes { table: None, problem: Some((Reason::NameTaken, format!("{key} belongs to somebody else"))) };
    }
    let desired = match content(inference, spec, predictors, current.as_ref()) {
        Ok(desired) => desired,
        Err(problem) => return Routes { table: current, problem: Some(problem) },
    };
    let before = live.map(templates_in).unwrap_or_default();
    let templates = templates(predictors, &desired, &before);
    let table = numbered(inference, desired, live, current.as_ref(), before == templates);
    if current.as_ref() != Some(&table) || before != templates {
        plan.push(write(cx, inference, live, &table, &templates));
    }
    Routes { table: Some(table), problem: None }
}

/// The table without its numbers, or why the last good one stays.
fn content(
    inference: &Value,
    spec: &InferenceSpec,
    predictors: &[Observed],
    current: Option<&RouteTableSpec>,
) -> Result<RouteTableSpec, (Reason, String)> {
    if predictors.iter().all(|predictor| predictor.spec.weight() == 0) {
        let message = "every predictor has trafficWeight 0, so the traffic stays as it was: give one a weight above 0";
        return Err((Reason::AllWeightsZero, message.to_owned()));
    }
    let arms = arms(read::name(inference), predictors, current);
    if arms.iter().all(|arm| arm.weight == 0) {
        let message = "no predictor with a weight above 0 has been ready yet";
        return Err((Reason::NoReadyPredictor, message.to_owned()));
    }
    let traffic = spec.traffic.clone().unwrap_or_default();
    let timeouts = timeouts(traffic.timeouts.as_ref())
        .map_err(|(field, error)| (Reason::InvalidSpec, format!("traffic.timeouts.{field}: {error}")))?;
    Ok(RouteTableSpec {
        version: ROUTE_TABLE_VERSION,
        generation: 0,
        inference: read::name(inference).to_owned(),
        epoch: 0,
        salt: read::uid(inference).to_owned(),
        rules: rules(&traffic, &arms),
        arms,
        sticky: traffic.sticky,
        timeouts,
        retry: RetryBudget::default(),
        hold: HoldLimits::default(),
        debug_headers: traffic.debug_headers,
    })
}

/// An arm joins with its predictor's first ready pod, and stays whatever happens to its pods later.
fn arms(inference: &str, predictors: &[Observed], current: Option<&RouteTableSpec>) -> Vec<Arm> {
    let before = |name: &str| current.and_then(|table| table.arms.iter().find(|arm| arm.name == name));
    let arm = |predictor: &Observed| {
        let before = before(&predictor.spec.name);
        if before.is_none() && predictor.ready() == 0 {
            return None;
        }
        let mounted = predictor.deployment.and_then(|live| read::annotation(live, labels::MODEL_IMAGE));
        let model = match before {
            Some(arm) if !predictor.is_settled() => arm.model.clone(),
            _ => mounted.map(str::to_owned),
        };
        Some(Arm {
            name: predictor.spec.name.clone(),
            weight: predictor.spec.weight(),
            state: if predictor.desired() == 0 { ArmState::Broken } else { ArmState::Active },
            service: Some(names::predictor(inference, &predictor.spec.name)),
            port_name: Some(HTTP_PORT_NAME.to_owned()),
            endpoints: Vec::new(),
            model,
            capacity: None,
        })
    };
    predictors.iter().filter_map(arm).collect()
}

fn rules(traffic: &Traffic, arms: &[Arm]) -> Vec<Rule> {
    let has_arm = |name: &String| arms.iter().any(|arm| arm.name == *name);
    let rules = traffic.rules.iter().filter(|rule| has_arm(&rule.predictor));
    rules.map(|rule| Rule { matches: rule.matches.clone(), predictor: rule.predictor.clone() }).collect()
}

fn timeouts(given: Option<&TrafficTimeouts>) -> Result<Timeouts, (&'static str, DurationError)> {
    let mut timeouts = Timeouts::default();
    let Some(given) = given else { return Ok(timeouts) };
    let fields = [
        ("connect", &given.connect, &mut timeouts.connect_ms),
        ("firstByte", &given.first_byte, &mut timeouts.first_byte_ms),
        ("idle", &given.idle, &mut timeouts.idle_ms),
        ("total", &given.total, &mut timeouts.total_ms),
    ];
    for (field, text, target) in fields {
        let Some(text) = text else { continue };
        let duration = duration::parse(text).map_err(|error| (field, error))?;
        *target = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    }
    Ok(timeouts)
}

/// Template hash of each arm as of its last complete rollout.
fn templates(
    predictors: &[Observed],
    table: &RouteTableSpec,
    before: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let hash = |arm: &Arm| {
        let predictor = predictors.iter().find(|predictor| predictor.spec.name == arm.name)?;
        let known = before.get(&arm.name).filter(|_| !predictor.is_settled());
        let newest = predictor.deployment.and_then(|live| read::annotation(live, labels::TEMPLATE_HASH));
        let hash = known.map(String::as_str).or(newest)?;
        Some((arm.name.clone(), hash.to_owned()))
    };
    table.arms.iter().filter_map(hash).collect()
}

fn templates_in(live: &Value) -> BTreeMap<String, String> {
    let text = read::annotation(live, labels::ARM_TEMPLATES).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// Gives the table its generation, which grows with every change, and its epoch, which moves when evidence from
/// before and after must not be pooled.
fn numbered(
    inference: &Value,
    mut table: RouteTableSpec,
    live: Option<&Value>,
    current: Option<&RouteTableSpec>,
    has_same_templates: bool,
) -> RouteTableSpec {
    let known = live.map_or(0, |live| read::number(live, "/spec/generation"));
    let next = known.max(read::number(inference, "/status/routeGeneration")) + 1;
    (table.generation, table.epoch) = (next, next);
    let Some(current) = current else { return table };
    if has_same_templates && is_same_evidence(current, &table) {
        table.epoch = current.epoch;
    }
    let unchanged = RouteTableSpec { generation: current.generation, ..table.clone() };
    if unchanged == *current { unchanged } else { table }
}

/// Whether requests are assigned alike and answered by the same models.
fn is_same_evidence(a: &RouteTableSpec, b: &RouteTableSpec) -> bool {
    a.arms == b.arms && a.sticky == b.sticky && a.salt == b.salt && a.rules == b.rules
}

fn write(
    cx: &Context,
    inference: &Value,
    live: Option<&Value>,
    table: &RouteTableSpec,
    templates: &BTreeMap<String, String>,
) -> Action {
    let name = read::name(inference);
    let mut object = live
        .cloned()
        .unwrap_or_else(|| manifest(Kind::RouteTable, name, inference, common_labels(name, labels::component::ROUTER)));
    annotate(&mut object, labels::CHANGED_AT, &cx.now.to_string());
    annotate(&mut object, labels::ARM_TEMPLATES, &json!(templates).to_string());
    object["spec"] = serde_json::to_value(table).expect("a table is plain data");
    if live.is_some() { Action::Replace(object) } else { Action::Create(object) }
}
