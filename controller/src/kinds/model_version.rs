//! Versions: woken by themselves, their Model, their builder Jobs and the pods of those.

use std::collections::HashSet;

use modelway_plan::{Key, Kind, World, json as read};
use serde_json::Value;

use super::{controller_of, kind_of, namespace_of};

/// Adds the versions whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value, keys: &mut HashSet<Key>) {
    let namespace = namespace_of(object);
    let version =
        |job: &Value| controller_of(job, Kind::ModelVersion).map(|name| Key::new(Kind::ModelVersion, namespace, name));
    match kind_of(object) {
        Some(Kind::ModelVersion) => keys.extend(Key::of(object)),
        Some(Kind::Job) => keys.extend(version(object)),
        Some(Kind::Pod) => {
            let job = controller_of(object, Kind::Job).and_then(|name| world.get(Kind::Job, namespace, name));
            keys.extend(job.and_then(version));
        }
        Some(Kind::Event) => {
            let job = world.get(Kind::Job, namespace, read::text(object, "/involvedObject/name"));
            keys.extend(job.and_then(version));
        }
        Some(Kind::Model) => {
            let versions = world.list(Kind::ModelVersion, namespace);
            let of_model = versions.filter(|version| read::text(version, "/spec/modelName") == read::name(object));
            keys.extend(of_model.filter_map(Key::of));
        }
        _ => {}
    }
}
