//! What an Inference's status says: one cause in `Ready`, each part in its own condition.

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason,
    conditions::{self, State},
    inference::{InferenceSpec, InferenceStatus, PredictorStatus},
    route_table::ArmState,
};
use serde_json::Value;

use crate::{
    context::Context,
    json as read,
    plan::Plan,
    predictor::{HTTP_PORT, Observed},
    resolve::{Resolution, digest_of},
    router::{self, bracketed},
    routes::Routes,
    serving::Problems,
};

/// Longest message of one predictor.
const PREDICTOR_MESSAGE_MAX: usize = 1_024;
/// Longest reason of a number of pods.
const SCALE_REASON_MAX: usize = 256;

/// All that a status is made from.
pub struct View<'a> {
    pub cx: &'a Context<'a>,
    pub live: &'a Value,
    pub spec: &'a InferenceSpec,
    pub before: InferenceStatus,
    pub predictors: &'a [Observed<'a>],
    pub router: router::Observed<'a>,
    pub routes: &'a Routes,
    pub problems: &'a Problems,
}

/// A part that holds, or the cause why not.
type Part = Result<(), (Reason, String)>;

/// The status as it should be.
pub fn status(view: &View) -> InferenceStatus {
    let parts = [
        (conditions::MODEL_READY, models(view), Reason::ModelsResolved),
        (conditions::REPLICAS_READY, replicas(view), Reason::ReplicasAvailable),
        (conditions::ROUTES_READY, routes(view), Reason::RoutesPublished),
    ];
    let mut list = view.before.conditions.clone();
    for (type_, part, good) in &parts {
        put(view, &mut list, type_, part, *good);
    }
    let values = view.problems.values.first().map(|message| (Reason::InvalidSpec, message.clone()));
    // A router without a table is not ready: the missing table is the cause.
    let tableless = view.routes.problem.clone().filter(|(reason, _)| {
        view.routes.table.is_none() && matches!(reason, Reason::AllWeightsZero | Reason::InvalidSpec)
    });
    let first = values.or_else(|| view.problems.objects.first().cloned()).or(tableless);
    let cause = first.or_else(|| parts.into_iter().find_map(|(_, part, _)| part.err()));
    summarize(view, &mut list, cause);
    let statuses = predictor_statuses(view);
    let (ready, desired) = statuses.iter().fold((0, 0), |(ready, desired), predictor| {
        (ready + predictor.ready_replicas.min(predictor.desired_replicas), desired + predictor.desired_replicas)
    });
    let percents: Vec<String> = statuses.iter().map(|predictor| predictor.traffic_percent.to_string()).collect();
    InferenceStatus {
        inference_endpoint: view.router.url(),
        predictor_statuses: statuses,
        replicas: Some(format!("{ready}/{desired}")),
        split: Some(percents.join("/")),
        route_generation: view.routes.table.as_ref().map(|table| table.generation).or(view.before.route_generation),
        observed_generation: generation(view.live),
        conditions: list,
    }
}

/// The status of an object that cannot be read at all.
pub fn unreadable(live: &Value, error: &str, now: Timestamp) -> Value {
    let before = serde_json::from_value::<InferenceStatus>(live["status"].clone()).unwrap_or_default();
    let mut status = InferenceStatus { observed_generation: generation(live), ..before };
    let message = format!("the spec cannot be read: {error}");
    for (type_, state) in [(conditions::READY, State::False), (conditions::STALLED, State::True)] {
        conditions::set(&mut status.conditions, type_, state, Reason::InvalidSpec, &message, generation(live), now);
    }
    serde_json::to_value(status).expect("a status is plain data")
}

/// Tells of every predictor that gets another number of pods by itself.
fn tell_scaling(plan: &mut Plan, live: &Value, before: &InferenceStatus, status: &InferenceStatus) {
    for predictor in &status.predictor_statuses {
        let Some(why) = &predictor.scale_reason else { continue };
        let known = before.predictor_statuses.iter().find(|known| known.name == predictor.name);
        let Some(from) = known.map(|known| known.desired_replicas) else { continue };
        if from != predictor.desired_replicas {
            let message = format!("predictor {}: {from} -> {} pods, {why}", predictor.name, predictor.desired_replicas);
            plan.tell(live, false, Reason::Scaled, message);
        }
    }
}

/// Tells when the summary changes, and of every change of a number of pods.
pub fn tell(plan: &mut Plan, live: &Value, before: &InferenceStatus, status: &InferenceStatus) {
    tell_scaling(plan, live, before, status);
    let Some(ready) = conditions::find(&status.conditions, conditions::READY) else { return };
    let before = read::condition(live, conditions::READY).unwrap_or(&Value::Null);
    if before["reason"] == ready.reason.as_str() && before["status"] == ready.status.as_str() {
        return;
    }
    let reason = Reason::ALL.iter().copied().find(|reason| reason.as_str() == ready.reason).unwrap_or(Reason::Updating);
    let message = if ready.message.is_empty() { "all predictors take traffic" } else { &ready.message };
    plan.tell(live, needs_attention(reason), reason, message);
}

fn models(view: &View) -> Part {
    let missing = view.predictors.iter().find_map(|predictor| match &predictor.resolution {
        Resolution::Missing { reason, message } => {
            Some((*reason, format!("predictor {}: {message}", predictor.spec.name)))
        }
        Resolution::None | Resolution::Version(_) => None,
    });
    missing.map_or(Ok(()), Err)
}

fn replicas(view: &View) -> Part {
    for predictor in view.predictors {
        let is_waking = predictor.replicas.moves() && predictor.problem.is_none() && is_waking(view, predictor);
        if (predictor.is_settled() || is_waking) && predictor.has_current_model() {
            continue;
        }
        let name = &predictor.spec.name;
        if let Some(problem) = &predictor.problem {
            let reason = problem.reason.unwrap_or(Reason::PredictorNotReady);
            return Err((reason, format!("predictor {name}: {}", problem.message)));
        }
        let (ready, desired) = (predictor.ready(), predictor.desired());
        return Err((Reason::PredictorStarting, format!("predictor {name}: {ready} of {desired} pods are ready")));
    }
    match &view.router.problem {
        _ if view.router.is_ready() => Ok(()),
        Some(problem) => {
            let reason = problem.reason.unwrap_or(Reason::RouterNotReady);
            Err((reason, format!("router: {}", problem.message)))
        }
        None => Err((Reason::RouterStarting, "the router's pods are on their way".to_owned())),
    }
}

fn routes(view: &View) -> Part {
    if let Some(problem) = &view.routes.problem {
        return Err(problem.clone());
    }
    let arms = view.routes.table.as_ref().map_or(&[][..], |table| &table.arms[..]);
    let outside = view.predictors.iter().find(|predictor| arms.iter().all(|arm| arm.name != predictor.spec.name));
    outside.map_or(Ok(()), |predictor| {
        let message = format!("predictor {} takes traffic with its first ready pod", predictor.spec.name);
        Err((Reason::NoReadyPredictor, message))
    })
}

fn put(view: &View, list: &mut Vec<conditions::Condition>, type_: &str, part: &Part, good: Reason) {
    let (state, reason, message) = match part {
        Ok(()) => (State::True, good, ""),
        Err((reason, message)) => (State::False, *reason, message.as_str()),
    };
    conditions::set(list, type_, state, reason, message, generation(view.live), view.cx.now);
}

/// `Ready`, `Progressing` and `Stalled` from the first cause.
fn summarize(view: &View, list: &mut Vec<conditions::Condition>, cause: Option<(Reason, String)>) {
    let cause = match cause {
        None if view.spec.paused && view.router.url().is_none() => {
            Some((Reason::Paused, "spec.paused is set".to_owned()))
        }
        None if view.router.url().is_none() => {
            Some((Reason::RouterStarting, "the entry Service has no address yet".to_owned()))
        }
        cause => cause,
    };
    let is_stalled = cause.as_ref().is_some_and(|(reason, _)| needs_attention(*reason));
    let is_moving = cause.is_some() && !is_stalled && !view.spec.paused;
    let message = cause.as_ref().map_or("", |(_, message)| message.as_str()).to_owned();
    let progress = match (is_moving, view.spec.paused) {
        (true, _) => Reason::Updating,
        (false, true) => Reason::Paused,
        (false, false) if is_stalled => Reason::NeedsAttention,
        (false, false) => Reason::Settled,
    };
    let part = cause.map_or(Ok(()), Err);
    put(view, list, conditions::READY, &part, Reason::Ready);
    let (now, generation) = (view.cx.now, generation(view.live));
    conditions::set(list, conditions::PROGRESSING, is_moving.into(), progress, &message, generation, now);
    let stalled = if is_stalled { Reason::NeedsAttention } else { Reason::NotStalled };
    let message = if is_stalled { message.as_str() } else { "" };
    conditions::set(list, conditions::STALLED, is_stalled.into(), stalled, message, generation, now);
}

/// Whether nothing changes until somebody changes something.
fn needs_attention(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::AliasUnknown
            | Reason::AccessDenied
            | Reason::AllWeightsZero
            | Reason::ChildRejected
            | Reason::CrashLoopBackOff
            | Reason::CreateContainerConfigError
            | Reason::Evicted
            | Reason::ImagePullBackOff
            | Reason::InvalidSpec
            | Reason::ModelNotFound
            | Reason::ModelVersionFailed
            | Reason::ModelVersionNotFound
            | Reason::LimitRangeViolated
            | Reason::NameTaken
            | Reason::OOMKilled
            | Reason::PodSecurityViolated
            | Reason::PredictorNotReady
            | Reason::QuotaExceeded
            | Reason::RouterNotReady
            | Reason::Unschedulable
            | Reason::WaitingForJobFailed
    )
}

/// Whether the predictor sleeps or comes back from that: its requests wait, so nothing is wrong.
fn is_waking(view: &View, predictor: &Observed) -> bool {
    let arms = view.routes.table.as_ref().map_or(&[][..], |table| &table.arms[..]);
    let arm = arms.iter().find(|arm| arm.name == predictor.spec.name);
    arm.is_some_and(|arm| matches!(arm.state, ArmState::Asleep | ArmState::Starting))
}

fn predictor_statuses(view: &View) -> Vec<PredictorStatus> {
    let percents = view.routes.percents();
    let arms = view.routes.table.as_ref().map_or(&[][..], |table| &table.arms[..]);
    let status = |predictor: &Observed| {
        let name = predictor.spec.name.as_str();
        let arm = arms.iter().find(|arm| arm.name == name);
        let digest = arm.and_then(|arm| arm.model.as_deref()).map(digest_of);
        PredictorStatus {
            name: name.to_owned(),
            replicas: predictor.existing(),
            ready_replicas: predictor.ready(),
            desired_replicas: predictor.desired(),
            scale_reason: predictor.replicas.reason().map(|why| conditions::shortened(&why, SCALE_REASON_MAX)),
            endpoint: endpoint(predictor),
            traffic_percent: percents.get(name).copied().unwrap_or(0),
            model_version: version_of(predictor),
            model_digest: digest.filter(|digest| !digest.is_empty()).map(str::to_owned),
            message: message(predictor),
        }
    };
    view.predictors.iter().map(status).collect()
}

fn endpoint(predictor: &Observed) -> Option<String> {
    let address = read::text(predictor.service?, "/spec/clusterIP");
    (!address.is_empty() && address != "None").then(|| format!("{}:{HTTP_PORT}", bracketed(address)))
}

fn version_of(predictor: &Observed) -> Option<String> {
    match &predictor.resolution {
        Resolution::Version(model) => Some(model.version.clone()),
        Resolution::None | Resolution::Missing { .. } => None,
    }
}

fn message(predictor: &Observed) -> Option<String> {
    let missing = match &predictor.resolution {
        Resolution::Missing { message, .. } => Some(message),
        Resolution::None | Resolution::Version(_) => None,
    };
    let problem = predictor.problem.as_ref().filter(|_| !predictor.is_settled());
    let told = missing.or(problem.map(|problem| &problem.message));
    told.map(|text| conditions::shortened(text, PREDICTOR_MESSAGE_MAX))
}

fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation").and_then(Value::as_i64)
}
