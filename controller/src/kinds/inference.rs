//! Inferences: woken by themselves, their objects and pods, and by every model, version and training job around them.

use std::collections::HashSet;

use modelway_api::labels;
use modelway_plan::{Key, Kind, World, json as read};
use serde_json::Value;

use super::{all, controller_of, kind_of, namespace_of};

/// Adds the Inferences whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value, keys: &mut HashSet<Key>) {
    let namespace = namespace_of(object);
    match kind_of(object) {
        Some(Kind::Inference) => keys.extend(Key::of(object)),
        Some(Kind::Model | Kind::ModelVersion) => keys.extend(all(world, Kind::Inference, namespace)),
        Some(Kind::Job) if read::annotation(object, labels::job::MODEL).is_some() => {
            keys.extend(all(world, Kind::Inference, namespace));
        }
        Some(Kind::Pod) => keys.extend(labelled(object, namespace)),
        Some(
            Kind::Deployment
            | Kind::Service
            | Kind::ServiceAccount
            | Kind::RoleBinding
            | Kind::PodDisruptionBudget
            | Kind::RouteTable,
        ) => {
            keys.extend(labelled(object, namespace));
            // An object of a taken name has no label of ours: its going away must still be noticed.
            let all = world.list(Kind::Inference, namespace);
            let taken = all.filter(|inference| read::name(object).starts_with(read::name(inference)));
            keys.extend(taken.filter_map(Key::of));
        }
        _ => {}
    }
}

fn labelled(object: &Value, namespace: &str) -> Option<Key> {
    let name = read::label(object, labels::INFERENCE_NAME).or_else(|| controller_of(object, Kind::Inference))?;
    Some(Key::new(Kind::Inference, namespace, name))
}
