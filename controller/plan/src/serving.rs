//! An `Inference`: its predictors, its router, its routes, and what its status says.

use modelway_api::{
    Reason,
    inference::{Inference, InferenceSpec},
    labels,
};
use serde_json::Value;

use crate::{
    context::Context,
    json as read,
    manifest::{Obstacle, ensure_status},
    plan::{Action, Plan},
    predictor::{self, Observed},
    refusal, replicas,
    resolve::resolve,
    router, routes, serving_status, template,
    world::{Key, Kind},
};

/// Everything that goes wrong with one Inference, in the order of the way a request takes.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Child objects that cannot be as they should.
    pub objects: Vec<(Reason, String)>,
    /// Values of the spec that cannot be read.
    pub values: Vec<String>,
}

/// Plans one Inference.
pub fn plan(cx: &Context, key: &Key) -> Plan {
    let mut plan = Plan::default();
    let Some(live) = cx.world.object(key).filter(|live| !read::is_deleted(live)) else { return plan };
    // Nothing new may be made there, and all that is there goes.
    if cx.world.get(Kind::Namespace, "", &key.namespace).is_some_and(read::is_deleted) {
        return plan;
    }
    let inference = match serde_json::from_value::<Inference>(live.clone()) {
        Ok(inference) => inference,
        Err(error) => {
            let status = serving_status::unreadable(live, &error.to_string(), cx.now);
            ensure_status(&mut plan, live, &status);
            return plan;
        }
    };
    let spec = &inference.spec;
    let predictors: Vec<Observed> = spec
        .predictors
        .iter()
        .map(|predictor| Observed::new(cx, live, predictor, resolve(cx.world, &key.namespace, predictor)))
        .collect();
    let mut problems = Problems::default();
    let routes = if spec.paused {
        routes::as_they_are(cx, live)
    } else {
        ensure_all(cx, &mut plan, live, spec, &predictors, &mut problems);
        retire(cx, &mut plan, live, spec);
        routes::plan(cx, &mut plan, live, spec, &predictors)
    };
    let view = serving_status::View {
        cx,
        live,
        spec,
        before: inference.status.unwrap_or_default(),
        predictors: &predictors,
        router: router::Observed::new(cx, live),
        routes: &routes,
        problems: &problems,
    };
    let status = serving_status::status(&view);
    ensure_status(&mut plan, live, &serde_json::to_value(&status).expect("a status is plain data"));
    serving_status::tell(&mut plan, live, &view.before, &status);
    plan
}

fn ensure_all(
    cx: &Context,
    plan: &mut Plan,
    live: &Value,
    spec: &InferenceSpec,
    predictors: &[Observed],
    problems: &mut Problems,
) {
    for observed in predictors {
        if let Some(Err(error)) = replicas::policy(observed.spec) {
            problems.values.push(format!("predictor {}: {error}", observed.spec.name));
        }
        if let Some(problem) = template::problem(observed.spec) {
            problems.values.push(problem);
        } else if let Err(obstacle) = predictor::ensure_objects(cx, plan, live, observed) {
            problems.objects.push(told(&obstacle));
        }
    }
    if let Err(obstacle) = router::ensure_objects(cx, plan, live, spec) {
        problems.objects.push(told(&obstacle));
    }
}

fn told(obstacle: &Obstacle) -> (Reason, String) {
    match obstacle {
        Obstacle::Taken(key) => {
            let message = format!("{key} exists and belongs to somebody else: delete it, or rename the Inference");
            (Reason::NameTaken, message)
        }
        Obstacle::Rejected(key, message) => {
            let reason = refusal::reason(message);
            (reason, format!("{key} was refused: {message}{}", refusal::advice(reason)))
        }
    }
}

/// Removes predictors that the spec no longer has, once the routers have had time to follow the table.
fn retire(cx: &Context, plan: &mut Plan, live: &Value, spec: &InferenceSpec) {
    let table = routes::observe(cx, live);
    let arms = table.map(routes::named_arms).unwrap_or_default();
    let changed =
        table.and_then(|table| read::annotation(table, labels::CHANGED_AT)).and_then(|time| time.parse().ok());
    let left = changed.and_then(|changed| cx.left(changed, cx.settings.retire_after));
    let namespace = read::text(live, "/metadata/namespace");
    for kind in [Kind::Deployment, Kind::Service] {
        for object in cx.world.list(kind, namespace).filter(|object| is_surplus(object, live, spec)) {
            let name = read::label(object, labels::PREDICTOR_NAME).unwrap_or_default();
            if arms.contains(name) {
                continue;
            }
            match left {
                Some(left) => plan.look_again(left),
                None => plan.push(Action::Delete {
                    key: Key::new(kind, namespace, read::name(object)),
                    uid: read::uid(object).to_owned(),
                }),
            }
        }
    }
}

fn is_surplus(object: &Value, live: &Value, spec: &InferenceSpec) -> bool {
    let name = read::label(object, labels::PREDICTOR_NAME);
    read::is_controlled_by(object, read::uid(live))
        && !read::is_deleted(object)
        && name.is_some_and(|name| spec.predictors.iter().all(|predictor| predictor.name != name))
}
