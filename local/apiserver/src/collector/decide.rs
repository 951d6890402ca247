//! What to do about one object, given its owners and its dependents.

use std::sync::Arc;

use crate::meta::{FOREGROUND, ORPHAN};
use crate::store::{Object, Owner};
use crate::write::delete::Propagation;

#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// All owners are gone, or wait for this object to go.
    Delete(Propagation),
    /// Some owners are gone while others hold the object: forget the gone ones.
    DropOwners(Vec<String>),
    /// The object goes and releases its dependents first.
    Orphan,
    /// The object goes after its dependents.
    DeleteDependents,
    /// All dependents that block are gone.
    Release,
}

/// `find` looks an owner up by uid; `served` says whether a kind is known at all.
pub fn decide(
    object: &Object,
    dependents: &[Arc<Object>],
    find: impl Fn(&str) -> Option<Arc<Object>>,
    served: impl Fn(&str, &str) -> bool,
) -> Action {
    if object.terminating && object.has_finalizer(ORPHAN) {
        return Action::Orphan;
    }
    if object.terminating && object.has_finalizer(FOREGROUND) {
        let blocks = |dependent: &Arc<Object>| {
            dependent.owners.iter().any(|owner| owner.uid == object.uid && owner.block_owner_deletion)
        };
        return if dependents.iter().any(blocks) { Action::DeleteDependents } else { Action::Release };
    }
    if object.terminating || object.owners.is_empty() {
        return Action::Nothing;
    }
    by_owners(object, dependents, find, served)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Holds,
    Waits,
    Gone,
}

fn by_owners(
    object: &Object,
    dependents: &[Arc<Object>],
    find: impl Fn(&str) -> Option<Arc<Object>>,
    served: impl Fn(&str, &str) -> bool,
) -> Action {
    let states: Vec<(State, &Owner)> =
        object.owners.iter().map(|owner| (state(object, owner, find(&owner.uid).as_deref(), &served), owner)).collect();
    let waiting = states.iter().any(|(state, _)| *state == State::Waits);
    if states.iter().any(|(state, _)| *state == State::Holds) {
        let gone: Vec<String> =
            states.iter().filter(|(state, _)| *state != State::Holds).map(|(_, owner)| owner.uid.clone()).collect();
        return if gone.is_empty() { Action::Nothing } else { Action::DropOwners(gone) };
    }
    if waiting && !dependents.is_empty() {
        return Action::Delete(Propagation::Foreground);
    }
    Action::Delete(Propagation::Background)
}

fn state(object: &Object, owner: &Owner, found: Option<&Object>, served: impl Fn(&str, &str) -> bool) -> State {
    let reachable = |found: &&Object| {
        found.key.name == owner.name && (found.key.namespace.is_empty() || found.key.namespace == object.key.namespace)
    };
    match found.filter(reachable) {
        Some(found) if found.terminating && found.has_finalizer(FOREGROUND) => State::Waits,
        None if served(&owner.api_version, &owner.kind) => State::Gone,
        // Nothing can be said about kinds that are not served.
        Some(_) | None => State::Holds,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::store::Key;

    fn object(name: &str, metadata: &Value) -> Arc<Object> {
        let mut value = json!({"metadata": {"name": name, "uid": name}});
        for (field, content) in metadata.as_object().unwrap() {
            value["metadata"][field] = content.clone();
        }
        let body = value.to_string().into();
        Arc::new(Object::from_body(Key::new("configmaps", "a", name), 1, body).unwrap())
    }

    fn owned(owners: &[&str]) -> Arc<Object> {
        let owners: Vec<Value> = owners
            .iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": true}))
            .collect();
        object("dependent", &json!({"ownerReferences": owners}))
    }

    fn decided(object: &Object, dependents: &[Arc<Object>], all: &[Arc<Object>]) -> Action {
        let find = |uid: &str| all.iter().find(|one| one.uid == uid).cloned();
        decide(object, dependents, find, |_, kind| kind == "ConfigMap")
    }

    #[test]
    fn the_last_owner_takes_the_dependent_along() {
        let alive = object("alive", &json!({}));
        let all = [alive];
        assert_eq!(decided(&owned(&["gone"]), &[], &all), Action::Delete(Propagation::Background));
        assert_eq!(decided(&owned(&["gone", "alive"]), &[], &all), Action::DropOwners(vec!["gone".into()]));
        assert_eq!(decided(&owned(&["alive"]), &[], &all), Action::Nothing);
    }

    #[test]
    fn foreground_waits_for_what_blocks() {
        let marks = json!({"deletionTimestamp": "t", "finalizers": ["foregroundDeletion"]});
        let owner = object("owner", &marks);
        let dependent = owned(&["owner"]);
        assert_eq!(decided(&owner, std::slice::from_ref(&dependent), &[]), Action::DeleteDependents);
        assert_eq!(decided(&owner, &[], &[]), Action::Release);
        assert_eq!(decided(&dependent, &[], std::slice::from_ref(&owner)), Action::Delete(Propagation::Background));
        assert_eq!(decided(&dependent, &[owned(&["x"])], &[owner]), Action::Delete(Propagation::Foreground));
    }

    #[test]
    fn unknown_kinds_and_other_namespaces_are_told_apart() {
        let foreign = object(
            "x",
            &json!({"ownerReferences": [{"apiVersion": "g/v1", "kind": "Unknown", "name": "o", "uid": "o"}]}),
        );
        assert_eq!(decided(&foreign, &[], &[]), Action::Nothing);
        let elsewhere = json!({"metadata": {"name": "owner", "uid": "owner"}}).to_string().into();
        let elsewhere = Arc::new(Object::from_body(Key::new("configmaps", "b", "owner"), 1, elsewhere).unwrap());
        assert_eq!(decided(&owned(&["owner"]), &[], &[elsewhere]), Action::Delete(Propagation::Background));
    }
}
