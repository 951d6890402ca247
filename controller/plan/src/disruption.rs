//! Disruption budgets: of several pods at most one at a time is evicted.

use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    json as read,
    manifest::{Obstacle, ensure, manifest},
    plan::{Action, Plan},
    world::{Key, Kind},
};

/// Plans the budget of a Deployment of that name, or its removal: a single pod has none, or its node could never be
/// drained.
pub fn ensure_budget(
    cx: &Context,
    plan: &mut Plan,
    inference: &Value,
    name: &str,
    replicas: i32,
    labels: Map<String, Value>,
    selector: &Map<String, Value>,
) -> Result<(), Obstacle> {
    if replicas >= 2 {
        let mut budget = manifest(Kind::PodDisruptionBudget, name, inference, labels);
        budget["spec"] = json!({ "maxUnavailable": 1, "selector": { "matchLabels": selector } });
        return ensure(plan, cx, inference, budget);
    }
    let namespace = read::text(inference, "/metadata/namespace");
    let live = cx.world.get(Kind::PodDisruptionBudget, namespace, name);
    if let Some(live) =
        live.filter(|live| read::is_controlled_by(live, read::uid(inference)) && !read::is_deleted(live))
    {
        let key = Key::new(Kind::PodDisruptionBudget, namespace, name);
        plan.push(Action::Delete { key, uid: read::uid(live).to_owned() });
    }
    Ok(())
}
