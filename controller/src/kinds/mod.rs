//! One file a kind that has a planner: what wakes it, and which planner it is.

pub mod inference;
pub mod job;
pub mod model;
pub mod model_version;

use std::collections::HashSet;

use modelway_plan::{Context, Key, Kind, Plan, World, job_source::JobSource};
use serde_json::Value;

/// Plans one object.
pub fn plan(cx: &Context, sources: &[JobSource], key: &Key) -> Plan {
    match key.kind {
        Kind::Job => modelway_plan::publish::plan(cx, sources, key),
        Kind::ModelVersion => modelway_plan::model_version::plan(cx, key),
        Kind::Model => modelway_plan::model::plan(cx, key),
        Kind::Inference => modelway_plan::serving::plan(cx, key),
        Kind::Namespace
        | Kind::Pod
        | Kind::PersistentVolumeClaim
        | Kind::Secret
        | Kind::Service
        | Kind::Deployment
        | Kind::RouteTable => Plan::default(),
    }
}

/// Keys whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value) -> HashSet<Key> {
    let mut keys = HashSet::new();
    job::woken_by(world, object, &mut keys);
    model_version::woken_by(world, object, &mut keys);
    model::woken_by(object, &mut keys);
    inference::woken_by(world, object, &mut keys);
    keys
}

fn kind_of(object: &Value) -> Option<Kind> {
    Key::of(object).map(|key| key.kind)
}

fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Name of the object's controller, when it is of that kind.
fn controller_of(object: &Value, kind: Kind) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == kind.as_str())?;
    owner["name"].as_str()
}

/// Every object of a kind in a namespace.
fn all<'a>(world: &'a World, kind: Kind, namespace: &'a str) -> impl Iterator<Item = Key> + 'a {
    world.list(kind, namespace).filter_map(Key::of)
}
