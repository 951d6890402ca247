//! The route table of an Inference: which predictors take traffic now, and how much each.

use std::collections::{BTreeMap, BTreeSet};

use modelway_api::{
    Reason, bytes,
    duration::{self, DurationError},
    inference::{InferenceSpec, Traffic, TrafficHold, TrafficTimeouts},
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
    pods::Problem,
    predictor::{HTTP_PORT_NAME, Observed, common_labels},
    replicas,
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
    let hold = hold(traffic.hold.as_ref())
        .map_err(|(field, error)| (Reason::InvalidSpec, format!("traffic.hold.{field}: {error}")))?;
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
        hold,
        debug_headers: traffic.debug_headers,
    })
}

/// An arm joins with its predictor's first ready pod, and stays whatever happens to its pods later.
fn arms(inference: &str, predictors: &[Observed], current: Option<&RouteTableSpec>) -> Vec<Arm> {
    let before = |name: &str| current.and_then(|table| table.arms.iter().find(|arm| arm.name == name));
    let arm = |predictor: &Observed| {
        let before = before(&predictor.spec.name);
        let sleeps = predictor.replicas.moves() && predictor.desired() == 0 && predictor.deployment.is_some();
        if before.is_none() && predictor.ready() == 0 && !sleeps {
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
            state: state(predictor, before.map(|arm| arm.state)),
            service: Some(names::predictor(inference, &predictor.spec.name)),
            port_name: Some(HTTP_PORT_NAME.to_owned()),
            endpoints: Vec::new(),
            model,
            capacity: replicas::concurrency(predictor.spec),
        })
    };
    predictors.iter().filter_map(arm).collect()
}

/// What the routers do with the predictor's requests. One whose number of pods moves by itself sleeps at zero, and wakes
/// with its first ready pod; when that cannot come, its requests go elsewhere.
fn state(predictor: &Observed, before: Option<ArmState>) -> ArmState {
    let desired = predictor.desired();
    if !predictor.replicas.moves() {
        return if desired == 0 { ArmState::Broken } else { ArmState::Active };
    }
    if desired == 0 {
        return ArmState::Asleep;
    }
    if predictor.ready() > 0 || before == Some(ArmState::Active) {
        return ArmState::Active;
    }
    if predictor.problem.as_ref().is_some_and(is_hopeless) { ArmState::Broken } else { ArmState::Starting }
}

/// Whether waiting does not help. A node may still come for a pod that no node has room for.
fn is_hopeless(problem: &Problem) -> bool {
    matches!(
        problem.reason,
        Some(
            Reason::CrashLoopBackOff
                | Reason::CreateContainerConfigError
                | Reason::ImagePullBackOff
                | Reason::OOMKilled
        )
    )
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

fn hold(given: Option<&TrafficHold>) -> Result<HoldLimits, (&'static str, String)> {
    let mut limits = HoldLimits::default();
    let Some(given) = given else { return Ok(limits) };
    if let Some(requests) = given.max_requests {
        limits.max_requests = requests;
    }
    if let Some(text) = &given.max_bytes {
        limits.max_bytes = bytes::parse(text).map_err(|error| ("maxBytes", error.to_string()))?;
    }
    if let Some(text) = &given.max_age {
        let age = duration::parse(text).map_err(|error| ("maxAge", error.to_string()))?;
        limits.max_age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    }
    Ok(limits)
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

/// Template hash of each arm as of its last complete rollout, as the observed table carries it.
pub fn templates_in(live: &Value) -> BTreeMap<String, String> {
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
    arms_are_alike(&a.arms, &b.arms) && a.sticky == b.sticky && a.salt == b.salt && a.rules == b.rules
}

/// Whether arms are the same but for what changes no answer: that one sleeps, and how many requests a pod takes.
fn arms_are_alike(a: &[Arm], b: &[Arm]) -> bool {
    let evidence = |arm: &Arm| Arm { state: ArmState::default(), capacity: None, ..arm.clone() };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| evidence(a) == evidence(b))
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
