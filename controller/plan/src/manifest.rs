//! Shared parts of the manifests that plans carry.

use std::time::Duration;

use modelway_api::{MANAGER, labels};
use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    json as read,
    plan::{Action, Plan},
    world::{Key, Kind},
};

/// After a refusal that may pass by itself.
pub const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A manifest with its metadata; owned by `owner`, which becomes its controller.
pub fn manifest(kind: Kind, name: &str, owner: &Value, labels: Map<String, Value>) -> Value {
    let mut labels = labels;
    labels.insert(labels::MANAGED_BY.to_owned(), MANAGER.into());
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.as_str(),
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(owner)],
        },
    })
}

/// The owner reference that makes `owner` the controller.
pub fn controller_reference(owner: &Value) -> Value {
    let mut reference = owner_reference(owner);
    reference["controller"] = true.into();
    reference["blockOwnerDeletion"] = true.into();
    reference
}

/// The owner reference that lets an object go with `owner`.
pub fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    })
}

/// What Pod Security "restricted" asks of a pod.
pub fn pod_security() -> Value {
    json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } })
}

/// What Pod Security "restricted" asks of a container, and a root filesystem that nobody writes to.
pub fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Labels from pairs.
pub fn labels(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
}

/// Sets an annotation of a manifest.
pub fn annotate(object: &mut Value, key: &str, value: &str) {
    object["metadata"]["annotations"][key] = value.into();
}

/// Why an object that should be as desired is not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// Somebody else owns an object of that name.
    Taken(Key),
    /// The API server refused the manifest, with these words.
    Rejected(Key, String),
}

/// Plans to bring one child object to `desired`, when it is not so already. Never touches an object of somebody else.
/// What was refused is tried again after a while where that can help, and otherwise once it has changed.
pub fn ensure(plan: &mut Plan, cx: &Context, owner: &Value, mut desired: Value) -> Result<(), Obstacle> {
    let applied = read::hash(&desired);
    annotate(&mut desired, labels::APPLIED, &applied);
    let key = Key::of(&desired).expect("a planned manifest has kind and name");
    let live = cx.world.object(&key);
    if live.is_some_and(|live| !read::is_controlled_by(live, read::uid(owner))) {
        return Err(Obstacle::Taken(key));
    }
    if let Some(rejection) = cx.world.rejection(&key).filter(|rejection| rejection.applied == applied) {
        let left = cx.left(rejection.at, REFUSED_AGAIN_AFTER);
        if let Some(left) = left.filter(|_| rejection.may_pass) {
            plan.look_again(left);
        }
        if left.is_some() || !rejection.may_pass {
            return Err(Obstacle::Rejected(key, rejection.message.clone()));
        }
    }
    let is_so =
        |live: &Value| read::annotation(live, labels::APPLIED) == Some(&applied) && read::covers(live, &desired);
    if !live.is_some_and(is_so) {
        plan.push(Action::Apply(desired));
    }
    Ok(())
}

/// Plans to write a status, when it is not so already.
pub fn ensure_status(plan: &mut Plan, live: &Value, status: &Value) {
    if read::is_same(&live["status"], status) {
        return;
    }
    let metadata = &live["metadata"];
    plan.push(Action::Status(json!({
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": { "name": metadata["name"], "namespace": metadata["namespace"] },
        "status": status,
    })));
}

/// A merge patch of an object's metadata that fails when the object has changed meanwhile.
pub fn patch_metadata(object: &Value, mut metadata: Value) -> Option<Action> {
    let key = Key::of(object)?;
    metadata["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
    Some(Action::Patch { key, patch: json!({ "metadata": metadata }) })
}
