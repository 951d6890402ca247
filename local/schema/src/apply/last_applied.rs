//! The annotation in which client-side `kubectl apply` remembers what it applied, for users who move to the server.

use serde_json::Value;

use super::compare::Changes;
use super::element::canonical;
use super::extract::extract;
use super::fields::FieldSet;
use crate::node::Node;

/// Only this manager moves; others that want to must take over by force.
const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Kubernetes' bound on all annotations of an object; a longer text is dropped.
const MOST_BYTES: usize = 256 * 1024;

/// What kubectl applied on its own side and nobody changed since: no conflict when kubectl applies it on the server.
pub(super) fn movable(node: &Node, live: &Value, manager: &str) -> FieldSet {
    let remembered = remembered(live).filter(|_| manager == MANAGER);
    let Some(applied) = remembered.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return FieldSet::default();
    };
    if applied.get("apiVersion") != live.get("apiVersion") {
        return FieldSet::default();
    }
    let Ok(fields) = extract(node, &applied) else { return FieldSet::default() };
    let changes = Changes::between(node, &applied, live);
    fields.difference(&changes.written()).difference(&changes.removed)
}

/// Brings the annotation up to date where there is one, so that both kinds of apply agree.
pub(super) fn remember(result: &mut Value, applied: &Value, manager: &str) {
    if manager != MANAGER || remembered(result).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
    }
    let text = format!("{}\n", as_go_writes(&canonical(&applied)));
    let text = if text.len() > MOST_BYTES { String::new() } else { text };
    result["metadata"]["annotations"][ANNOTATION] = text.into();
}

fn remembered(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Go escapes what HTML could take for markup; such characters stand within texts only.
fn as_go_writes(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
