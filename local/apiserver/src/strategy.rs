//! What single built-in kinds do differently. Everything else in the server is the same for all kinds.

use serde_json::{Value, json};

use crate::builtin;
use crate::kinds::ResourceKind;
use crate::meta;
use crate::status::{ApiError, Cause};
use crate::write::Part;

/// Namespaces that are always there.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["default", "kube-node-lease", "kube-system"];

/// Groups that Kubernetes serves itself end so, or have no dot.
pub fn is_custom(kind: &ResourceKind) -> bool {
    kind.group.contains('.') && !kind.group.ends_with(".k8s.io")
}

fn is(kind: &ResourceKind, group: &str, name: &str) -> bool {
    kind.kind == name && kind.group == group
}

fn is_core(kind: &ResourceKind, name: &str) -> bool {
    is(kind, "", name)
}

/// Kinds whose `metadata.generation` counts desired states.
pub fn has_generation(kind: &ResourceKind) -> bool {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("apps" | "batch" | "policy" | "apiextensions.k8s.io" | "autoscaling" | "networking.k8s.io", _) => true,
        _ => is_custom(kind),
    }
}

/// Status in a POST is dropped, except where the writer of both is the same.
pub fn drops_status_on_create(kind: &ResourceKind) -> bool {
    kind.status_subresource && !is_core(kind, "Node")
}

/// Fills what the server decides when an object is created, after defaults.
pub fn prepare_create(kind: &ResourceKind, value: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => {
            value["spec"] = json!({"finalizers": ["kubernetes"]});
            value["status"] = json!({"phase": "Active"});
            let name = value["metadata"]["name"].clone();
            if let Some(labels) = meta::map_at(value, &["metadata", "labels"]) {
                labels.insert("kubernetes.io/metadata.name".to_owned(), name);
            }
        }
        ("", "Pod") => {
            let class = quality_of_service(&value["spec"]);
            value["status"] = json!({"phase": "Pending", "qosClass": class});
        }
        ("", "Secret") => fold_string_data(value),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => value["status"] = json!({"phase": "Pending"}),
        ("batch", "Job") => select_own_pods(value),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crds::prepare(value),
        _ => {}
    }
}

/// Fills what the server decides when an object changes, after defaults.
pub fn prepare_update(kind: &ResourceKind, value: &mut Value, old: &Value, part: Part) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Secret") => fold_string_data(value),
        ("", "Namespace") if part == Part::Main => meta::copy(value, old, "spec"),
        ("", "Service") if part == Part::Main => keep_allocated(value, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if part == Part::Main => {
            crate::crds::prepare(value);
        }
        _ => {}
    }
}

/// Rules beyond the schema, on values of the right types.
pub fn validate(kind: &ResourceKind, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    if is_custom(kind) {
        return Vec::new();
    }
    let errors = builtin::validate_object(&kind.group, &kind.kind, value, old).into_iter();
    let mut causes: Vec<Cause> =
        errors.map(|error| Cause::new(error.kind.reason(), error.message, error.path)).collect();
    if is(kind, "apiextensions.k8s.io", "CustomResourceDefinition") {
        causes.extend(crate::crds::validate(value, old));
    }
    causes
}

/// `stringData` is written into `data`, and not kept.
fn fold_string_data(value: &mut Value) {
    use base64::Engine as _;
    let Some(map) = value.as_object_mut() else { return };
    if !map.get("stringData").is_some_and(Value::is_object) {
        return;
    }
    let Some(Value::Object(texts)) = map.shift_remove("stringData") else { return };
    if !map.get("data").is_some_and(Value::is_object) {
        map.insert("data".to_owned(), json!({}));
    }
    for (key, text) in texts {
        let text = text.as_str().unwrap_or_default();
        map["data"][key] = base64::engine::general_purpose::STANDARD.encode(text).into();
    }
}

/// What the server gave a Service stays its own when a client sends the manifest that it wrote.
fn keep_allocated(value: &mut Value, old: &Value) {
    let (kind, before) = (value["spec"]["type"].clone(), old["spec"]["type"].clone());
    let absent = |field: &Value| field.as_str().is_none_or(str::is_empty);
    if kind == "ExternalName" || before == "ExternalName" || !absent(&value["spec"]["clusterIP"]) {
        return;
    }
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["clusterIP", "clusterIPs"] {
        if let Some(known) = old["spec"].get(field) {
            spec.insert(field.to_owned(), known.clone());
        }
    }
}

/// A Job's pods are found by its uid, as in Kubernetes.
fn select_own_pods(value: &mut Value) {
    if value["spec"]["manualSelector"] == true || !value["spec"].is_object() {
        return;
    }
    let (uid, name) = (value["metadata"]["uid"].clone(), value["metadata"]["name"].clone());
    let Some(labels) = meta::map_at(value, &["spec", "template", "metadata", "labels"]) else { return };
    for (key, label) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(key.to_owned(), label.clone());
    }
    if let Some(selector) = meta::map_at(value, &["spec", "selector", "matchLabels"]) {
        selector.insert("batch.kubernetes.io/controller-uid".to_owned(), uid);
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort` by requests and limits.
fn quality_of_service(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
        .map(|container| &container["resources"])
        .collect();
    let amounts = |resources: &Value, side: &str| resources[side].as_object().is_some_and(|map| !map.is_empty());
    if !containers.iter().any(|one| amounts(one, "limits") || amounts(one, "requests")) {
        return "BestEffort";
    }
    let guaranteed = |resources: &&Value| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = &resources["limits"][name];
            !limit.is_null() && (resources["requests"][name].is_null() || resources["requests"][name] == *limit)
        })
    };
    if containers.iter().all(guaranteed) { "Guaranteed" } else { "Burstable" }
}

pub fn check_delete(kind: &ResourceKind, old: &Value) -> Result<(), ApiError> {
    let name = meta::name(old);
    if is_core(kind, "Namespace") && SYSTEM_NAMESPACES.contains(&name) {
        return Err(ApiError::forbidden(kind, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Seconds an object stays after it was marked; only pods on a node have any.
pub fn grace_seconds(kind: &ResourceKind, old: &Value, wanted: Option<i64>) -> i64 {
    if !is_core(kind, "Pod") {
        return 0;
    }
    let scheduled = !old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(old["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !scheduled || ended {
        return 0;
    }
    let default = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let default = default.or(old["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    wanted.unwrap_or(default).max(0)
}

/// Namespaces stay until everything in them is gone.
pub fn keeps_until_emptied(kind: &ResourceKind, old: &Value) -> bool {
    is_core(kind, "Namespace") && old["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

pub fn mark_deleted(kind: &ResourceKind, value: &mut Value) {
    if is_core(kind, "Namespace") {
        value["status"]["phase"] = "Terminating".into();
    }
    if is(kind, "apiextensions.k8s.io", "CustomResourceDefinition") {
        crate::crds::mark_deleted(value);
    }
}

/// Kinds whose delete answers the last object instead of a `Status`.
pub fn returns_deleted(kind: &ResourceKind) -> bool {
    kind.group.is_empty()
        && matches!(
            kind.kind.as_str(),
            "Pod" | "Service" | "ServiceAccount" | "PersistentVolumeClaim" | "PersistentVolume"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::test_kind;

    #[test]
    fn string_data_is_folded_into_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"b": "hi"}});
        prepare_create(&test_kind("", "Secret"), &mut secret);
        assert_eq!(secret, json!({"data": {"a": "eA==", "b": "aGk="}}));
    }

    #[test]
    fn quality_of_service_follows_requests_and_limits() {
        let class = |resources: Value| quality_of_service(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
    }
}
