//! What is to be done. The executor has no choices left.

use std::time::Duration;

use modelway_api::Reason;
use serde_json::Value;

use crate::world::Key;

/// Field manager that owns what is given to somebody else, until they write it.
pub const HANDOVER_MANAGER: &str = "modelway-handover";

/// One call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create; an object of that name that is there already is left alone.
    Create(Value),
    /// Server-side apply of the whole manifest.
    Apply(Value),
    /// Server-side apply of a few fields in the name of [`HANDOVER_MANAGER`], which keeps them as they are until their
    /// next owner writes.
    HandOver(Value),
    /// Replace the object whose `resourceVersion` is in the manifest.
    Replace(Value),
    /// Merge patch; the patch carries the `resourceVersion` that it was made for.
    Patch { key: Key, patch: Value },
    /// Server-side apply of the status.
    Status(Value),
    /// Delete the object with that UID.
    Delete { key: Key, uid: String },
    /// Tell about a transition.
    Event(Event),
}

impl Action {
    /// The object that the action is about.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Create(object)
            | Self::Apply(object)
            | Self::HandOver(object)
            | Self::Replace(object)
            | Self::Status(object) => Key::of(object),
            Self::Patch { key, .. } | Self::Delete { key, .. } => Some(key.clone()),
            Self::Event(event) => Key::of(&event.regarding),
        }
    }
}

/// Something that a person should be told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `apiVersion`, `kind` and `metadata{name, namespace, uid}` of the object it is about.
    pub regarding: Value,
    pub warning: bool,
    pub reason: Reason,
    pub message: String,
}

/// Actions in order, and when to look again although nothing happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub again_after: Option<Duration>,
}

impl Plan {
    /// Adds an action.
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Looks again no later than after `wait`.
    pub fn look_again(&mut self, wait: Duration) {
        self.again_after = Some(self.again_after.map_or(wait, |earlier| earlier.min(wait)));
    }

    /// Tells about a transition of `object`.
    pub fn tell(&mut self, object: &Value, warning: bool, reason: Reason, message: impl Into<String>) {
        let metadata = &object["metadata"];
        let regarding = serde_json::json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": { "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"] },
        });
        let message = modelway_api::conditions::shortened(&message.into(), 1_024);
        self.push(Action::Event(Event { regarding, warning, reason, message }));
    }
}
