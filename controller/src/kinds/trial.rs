//! Trials: woken by themselves, their objects, the pods of those, and what is said about these.

use std::collections::HashSet;

use modelway_api::labels;
use modelway_plan::{Key, Kind, World, json as read};
use serde_json::Value;

use super::{controller_of, kind_of, namespace_of};

/// Adds the Trials whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value, keys: &mut HashSet<Key>) {
    let namespace = namespace_of(object);
    let trial = |object: &Value| controller_of(object, Kind::Trial).map(|name| Key::new(Kind::Trial, namespace, name));
    match kind_of(object) {
        Some(Kind::Trial) => keys.extend(Key::of(object)),
        Some(Kind::Deployment | Kind::Service | Kind::Job) => keys.extend(trial(object)),
        Some(Kind::Pod) => {
            let name = read::label(object, labels::TRIAL_NAME);
            keys.extend(name.map(|name| Key::new(Kind::Trial, namespace, name)));
        }
        Some(Kind::Event) => {
            let job = world.get(Kind::Job, namespace, read::text(object, "/involvedObject/name"));
            keys.extend(job.and_then(trial));
        }
        _ => {}
    }
}
