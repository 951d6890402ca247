//! One file a kind that has a planner: what wakes it, and which planner it is.

pub mod inference;
pub mod job;
pub mod model;
pub mod model_version;
pub mod profiling_experiment;
pub mod trial;

pub use job::is_training;

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
        Kind::ProfilingExperiment => profiling_experiment::plan(cx, key),
        Kind::Trial => modelway_plan::profiling::trial::plan(cx, key),
        Kind::Namespace
        | Kind::Event
        | Kind::Pod
        | Kind::PersistentVolumeClaim
        | Kind::Secret
        | Kind::ConfigMap
        | Kind::Service
        | Kind::ServiceAccount
        | Kind::Deployment
        | Kind::PodDisruptionBudget
        | Kind::RoleBinding
        | Kind::RouteTable => Plan::default(),
    }
}

/// Kinds that must have been seen before objects of a kind can be planned: what is missing in a cache that is half full
/// would look as if it did not exist.
pub fn needs(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Job => &[Kind::Job, Kind::Pod, Kind::PersistentVolumeClaim, Kind::ModelVersion],
        Kind::ModelVersion => &[Kind::ModelVersion, Kind::Model, Kind::Job, Kind::Pod],
        Kind::Model => &[Kind::Model, Kind::ModelVersion],
        Kind::Inference => &[
            Kind::Inference,
            Kind::RouteTable,
            Kind::Model,
            Kind::ModelVersion,
            Kind::Job,
            Kind::Deployment,
            Kind::Service,
            Kind::ServiceAccount,
            Kind::RoleBinding,
            Kind::PodDisruptionBudget,
            Kind::Pod,
        ],
        Kind::ProfilingExperiment => &[Kind::ProfilingExperiment, Kind::Trial, Kind::Inference, Kind::Deployment],
        Kind::Trial => &[Kind::Trial, Kind::Deployment, Kind::Service, Kind::Job, Kind::Pod],
        Kind::Namespace
        | Kind::Event
        | Kind::Pod
        | Kind::PersistentVolumeClaim
        | Kind::Secret
        | Kind::ConfigMap
        | Kind::Service
        | Kind::ServiceAccount
        | Kind::Deployment
        | Kind::PodDisruptionBudget
        | Kind::RoleBinding
        | Kind::RouteTable => &[],
    }
}

/// Whether planning takes so long that others must not wait for it: a model over many candidates is fitted.
pub fn is_long(kind: Kind) -> bool {
    kind == Kind::ProfilingExperiment
}

/// Keys of a namespace that have a planner.
pub fn planned(world: &World) -> impl Iterator<Item = Key> + '_ {
    let all = [Kind::Job, Kind::ModelVersion, Kind::Model, Kind::Inference, Kind::ProfilingExperiment, Kind::Trial];
    let keys = all.into_iter().flat_map(|kind| world.keys(kind));
    keys.filter(|key| key.kind != Kind::Job || world.object(key).is_some_and(is_training)).cloned()
}

/// Keys whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value) -> HashSet<Key> {
    let mut keys = HashSet::new();
    job::woken_by(world, object, &mut keys);
    model_version::woken_by(world, object, &mut keys);
    model::woken_by(object, &mut keys);
    inference::woken_by(world, object, &mut keys);
    profiling_experiment::woken_by(world, object, &mut keys);
    trial::woken_by(world, object, &mut keys);
    keys
}

fn kind_of(object: &Value) -> Option<Kind> {
    Kind::find(object["apiVersion"].as_str()?, object["kind"].as_str()?)
}

fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Name of the object's controller, when it is of that kind.
pub fn controller_of(object: &Value, kind: Kind) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == kind.as_str())?;
    owner["name"].as_str()
}

/// Every object of a kind in a namespace.
fn all<'a>(world: &'a World, kind: Kind, namespace: &'a str) -> impl Iterator<Item = Key> + 'a {
    world.list(kind, namespace).filter_map(Key::of)
}
