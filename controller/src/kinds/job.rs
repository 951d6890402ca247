//! Training jobs: woken by themselves, their pods, their version, their claims and their namespace.

use std::collections::HashSet;

use modelway_api::labels;
use modelway_plan::{Key, Kind, World, json as read};
use serde_json::Value;

use super::{all, controller_of, kind_of, namespace_of};

/// Adds the jobs whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value, keys: &mut HashSet<Key>) {
    let namespace = namespace_of(object);
    match kind_of(object) {
        Some(Kind::Job) if is_training(object) => keys.extend(Key::of(object)),
        Some(Kind::Pod) => {
            let job = controller_of(object, Kind::Job).and_then(|name| world.get(Kind::Job, namespace, name));
            keys.extend(job.filter(|job| is_training(job)).and_then(Key::of));
        }
        Some(Kind::ModelVersion) => {
            let job = read::text(object, "/spec/provenance/job/name");
            keys.extend(world.get(Kind::Job, namespace, job).and_then(Key::of));
        }
        Some(Kind::PersistentVolumeClaim) => keys.extend(training_jobs(world, namespace)),
        Some(Kind::Namespace) if read::is_deleted(object) => keys.extend(training_jobs(world, read::name(object))),
        _ => {}
    }
}

fn training_jobs<'a>(world: &'a World, namespace: &'a str) -> impl Iterator<Item = Key> + 'a {
    all(world, Kind::Job, namespace).filter(|key| world.object(key).is_some_and(is_training))
}

/// Whether the job is one that publishes, or did.
pub fn is_training(job: &Value) -> bool {
    let has_finalizer = || read::items(job, "/metadata/finalizers").any(|name| name == labels::PUBLISH_FINALIZER);
    read::annotation(job, labels::job::MODEL).is_some() || has_finalizer()
}
