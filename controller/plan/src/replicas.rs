//! How many pods a predictor should have: what the spec says, what its load asks for, or what somebody else's scaler
//! decides.

use std::collections::BTreeMap;

use modelway_api::{
    inference::{AutoScale, Predictor, ScaleMetric},
    route_table::ArmState,
};
use serde_json::Value;

use crate::{
    context::Context,
    json as read, routes,
    scale::{Hints, Policy, PolicyError},
    template,
};

/// Who decides, and what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replicas {
    /// The spec.
    Fixed(i32),
    /// The load, within the spec's bounds.
    Follows(Follows),
    /// A scaler of somebody else, named here; `live` is what it decided.
    External { scaler: String, live: i32 },
}

/// A number that follows the load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Follows {
    /// Pods that there should be.
    pub wanted: i32,
    /// Pods to ask for now: the last ones stay until every router is known to hold requests.
    pub applied: i32,
    /// Most pods.
    pub max: i32,
    /// Why that many.
    pub why: String,
}

impl Replicas {
    /// What is known of one predictor. `deployment` is its live one.
    pub fn of(cx: &Context, inference: &Value, predictor: &Predictor, deployment: Option<&Value>) -> Self {
        let Some(spec) = &predictor.auto_scale else {
            return Self::Fixed(predictor.replicas.unwrap_or(1).max(0));
        };
        let live = deployment.map(|live| count(live, "/spec/replicas"));
        match &spec.auto_scaler {
            Some(scaler) => Self::External { scaler: scaler_name(scaler), live: live.unwrap_or(1) },
            None => Self::Follows(follow(cx, inference, predictor, spec, live)),
        }
    }

    /// Pods that there should be.
    pub fn desired(&self) -> i32 {
        match self {
            Self::Fixed(count) | Self::External { live: count, .. } => *count,
            Self::Follows(follows) => follows.wanted,
        }
    }

    /// What a manifest says; `None` leaves the number to somebody else.
    pub fn manifest(&self) -> Option<i32> {
        match self {
            Self::Fixed(count) => Some(*count),
            Self::Follows(follows) => Some(follows.applied),
            Self::External { .. } => None,
        }
    }

    /// Most pods that there will be without a change of the spec.
    pub fn most(&self) -> i32 {
        match self {
            Self::Fixed(count) | Self::External { live: count, .. } => *count,
            Self::Follows(follows) => follows.max,
        }
    }

    /// Whether the number moves by itself.
    pub fn moves(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// Why that many, where it is not the spec that says so.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Fixed(_) => None,
            Self::Follows(follows) => Some(follows.why.clone()),
            Self::External { scaler, .. } => Some(format!("left to {scaler}")),
        }
    }
}

/// The policy of a predictor that follows its load; `None` for any other.
pub fn policy(predictor: &Predictor) -> Option<Result<Policy, PolicyError>> {
    let spec = predictor.auto_scale.as_ref().filter(|spec| spec.auto_scaler.is_none())?;
    Some(Policy::of(spec, hints(predictor)))
}

/// Requests that one pod takes at once, where the spec says so.
pub fn concurrency(predictor: &Predictor) -> Option<u32> {
    let policy = policy(predictor)?.ok()?;
    let is_known = policy.metric == ScaleMetric::Concurrency && predictor.auto_scale.as_ref()?.target.is_some();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
    is_known.then(|| policy.target.ceil().clamp(1.0, f64::from(u32::MAX)) as u32)
}

fn hints(predictor: &Predictor) -> Hints {
    Hints { has_gpu: template::has_gpu(predictor), capacity: None }
}

fn follow(cx: &Context, inference: &Value, predictor: &Predictor, spec: &AutoScale, live: Option<i32>) -> Follows {
    let policy = match Policy::of(spec, hints(predictor)) {
        Ok(policy) => policy,
        // Told as a bad value of the spec; what runs goes on running.
        Err(error) => {
            let count = live.unwrap_or(1);
            return Follows { wanted: count, applied: count, max: count, why: error.to_string() };
        }
    };
    let (min, max) = (pods(policy.min), pods(policy.max));
    let load = cx.world.load(read::text(inference, "/metadata/namespace"), read::name(inference));
    let decided = load.and_then(|load| load.wanted.get(&predictor.name));
    let (count, why) = match (live, decided) {
        (None, _) => (predictor.replicas.unwrap_or(1), "the first pods".to_owned()),
        (Some(_), Some(decided)) => (decided.replicas, decided.why.clone()),
        (Some(live), None) => (live, "no word from the routers: the number stays".to_owned()),
    };
    let wanted = count.clamp(min, max);
    let applied = match live {
        Some(live) if wanted == 0 && live > 0 && !is_held(cx, inference, &predictor.name) => live,
        _ => wanted,
    };
    Follows { wanted, applied, max, why }
}

/// Whether every router is known to keep the predictor's requests while it has no pods.
fn is_held(cx: &Context, inference: &Value, predictor: &str) -> bool {
    let Some(table) = routes::observe(cx, inference) else { return false };
    let asleep = serde_json::to_value(ArmState::Asleep).expect("a word");
    let sleeps = read::items(table, "/spec/arms").any(|arm| arm["name"] == predictor && arm["state"] == asleep);
    let load = cx.world.load(read::text(inference, "/metadata/namespace"), read::name(inference));
    let followed = load.and_then(|load| load.followed);
    sleeps && followed.is_some_and(|followed| followed >= read::number(table, "/spec/generation"))
}

fn scaler_name(scaler: &Value) -> String {
    let part = |field: &str| scaler[field].as_str().unwrap_or_default();
    let told = format!("{} {}", part("kind"), part("name"));
    if told.trim().is_empty() { "another autoscaler".to_owned() } else { told.trim().to_owned() }
}

fn count(object: &Value, pointer: &str) -> i32 {
    i32::try_from(read::number(object, pointer)).unwrap_or(i32::MAX)
}

fn pods(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// What an Inference's routers tell, and how many pods that asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Load {
    /// Newest route table generation that all of its routers follow; `None` while one of them is silent.
    pub followed: Option<i64>,
    /// By predictor.
    pub wanted: BTreeMap<String, Wanted>,
}

/// How many pods a predictor's load asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    pub replicas: i32,
    /// Why that many.
    pub why: String,
}
