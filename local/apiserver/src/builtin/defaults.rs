//! Defaults that the published `OpenAPI` does not carry, as Kubernetes' own decoders set them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{job_defaults, pod_defaults};

/// Drops explicit nulls: for built-in kinds `key: null` means that the key is absent. Values without structure of
/// their own (schemas of custom resources, managed fields) keep theirs.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            for (key, value) in object.iter_mut() {
                if !matches!(key.as_str(), "openAPIV3Schema" | "managedFields") {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Fills what a client may leave out of a built-in kind; other kinds stay as they are. Idempotent. On create
/// `metadata.uid` is set before: the selector of a Job holds it.
pub fn default_object(group: &str, kind: &str, object: &mut Value) {
    if !object.is_object() {
        return;
    }
    match (group, kind) {
        ("", "Pod") => pod_defaults::pod(object),
        ("", "Service") => service(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") => volume(object),
        ("", "Namespace") => within(object, "status", |status| set(status, "phase", "Active")),
        ("", "Endpoints") => endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => each(object, "ports", |port| {
            set(port, "name", "");
            set(port, "protocol", "TCP");
        }),
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") => replica_set(object),
        ("batch", "Job") => job_defaults::job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => role_binding(object),
        _ => {}
    }
}

/// Sets a field that is absent or null.
pub(super) fn set(object: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Runs on the object below `key`, made when absent; a value of another type is left for validation to refuse.
pub(super) fn within(parent: &mut Value, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let Some(parent) = parent.as_object_mut() else { return };
    set(parent, key, Map::new());
    if let Some(child) = parent.get_mut(key).and_then(Value::as_object_mut) {
        change(child);
    }
}

/// Runs on every object in the list below `key`.
pub(super) fn each(parent: &mut Value, key: &str, mut change: impl FnMut(&mut Map<String, Value>)) {
    let items = parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(&mut change);
}

/// A quantity may be written as a number; typed clients read strings only.
pub(super) fn quantities(map: Option<&mut Value>) {
    for value in map.and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
        quantity(value);
    }
}

pub(super) fn quantity(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = number.to_string().into();
    }
}

fn service(object: &mut Value) {
    within(object, "spec", |spec| {
        set(spec, "type", "ClusterIP");
        set(spec, "sessionAffinity", "None");
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if kind != "ExternalName" {
            set(spec, "internalTrafficPolicy", "Cluster");
            set(spec, "ipFamilies", json!(["IPv4"]));
            set(spec, "ipFamilyPolicy", "SingleStack");
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            set(spec, "externalTrafficPolicy", "Cluster");
        }
        if spec["sessionAffinity"] == "ClientIP" {
            set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
        }
    });
    each(&mut object["spec"], "ports", |port| {
        set(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            set(port, "targetPort", number);
        }
    });
}

/// `stringData` is written, never read: it becomes `data`.
fn secret(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    set(fields, "type", "Opaque");
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    within(object, "data", |data| {
        for (key, value) in plain {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    });
}

fn claim(object: &mut Value) {
    within(object, "spec", |spec| {
        set(spec, "volumeMode", "Filesystem");
        if let Some(resources) = spec.get_mut("resources") {
            quantities(resources.get_mut("requests"));
            quantities(resources.get_mut("limits"));
        }
    });
    within(object, "status", |status| {
        set(status, "phase", "Pending");
        quantities(status.get_mut("capacity"));
    });
}

fn volume(object: &mut Value) {
    within(object, "spec", |spec| {
        set(spec, "volumeMode", "Filesystem");
        set(spec, "persistentVolumeReclaimPolicy", "Retain");
        quantities(spec.get_mut("capacity"));
    });
    within(object, "status", |status| set(status, "phase", "Pending"));
}

fn endpoints(object: &mut Value) {
    for subset in object.get_mut("subsets").and_then(Value::as_array_mut).into_iter().flatten() {
        each(subset, "ports", |port| set(port, "protocol", "TCP"));
    }
}

fn deployment(object: &mut Value) {
    within(object, "spec", |spec| {
        set(spec, "replicas", 1);
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "progressDeadlineSeconds", 600);
        set(spec, "strategy", Map::new());
        let Some(strategy) = spec.get_mut("strategy").and_then(Value::as_object_mut) else { return };
        set(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            set(strategy, "rollingUpdate", Map::new());
            let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) else { return };
            set(rolling, "maxUnavailable", "25%");
            set(rolling, "maxSurge", "25%");
        }
    });
    pod_defaults::template(object);
}

fn replica_set(object: &mut Value) {
    within(object, "spec", |spec| set(spec, "replicas", 1));
    pod_defaults::template(object);
}

fn network_policy(object: &mut Value) {
    within(object, "spec", |spec| {
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    });
}

fn role_binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let name = |reference: &mut Map<String, Value>| {
        // The schema's own default is the empty text.
        if reference.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) {
            reference.insert("apiGroup".to_owned(), GROUP.into());
        }
    };
    within(object, "roleRef", name);
    each(object, "subjects", |subject| {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            name(subject);
        }
    });
}

fn definition(object: &mut Value) {
    within(object, "spec", |spec| {
        set(spec, "conversion", json!({"strategy": "None"}));
        let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            set(names, "singular", kind.to_lowercase());
            set(names, "listKind", format!("{kind}List"));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(group: &str, kind: &str, mut object: Value) -> Value {
        default_object(group, kind, &mut object);
        let once = object.clone();
        default_object(group, kind, &mut object);
        assert_eq!(once, object, "defaulting twice changes nothing more");
        object
    }

    #[test]
    fn a_deployment_rolls_by_quarters() {
        let deployment = defaulted("apps", "Deployment", json!({"spec": {"template": {"spec": {"containers": []}}}}));
        assert_eq!(deployment["spec"]["replicas"], 1);
        assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        assert_eq!(deployment["spec"]["template"]["spec"]["restartPolicy"], "Always");
    }

    #[test]
    fn a_recreate_strategy_gets_no_rolling_parameters() {
        let deployment = defaulted("apps", "Deployment", json!({"spec": {"strategy": {"type": "Recreate"}}}));
        assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn plain_secret_texts_become_data() {
        let secret = defaulted("", "Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}));
        assert_eq!(secret, json!({"data": {"c": "ZA==", "a": "Yg=="}, "type": "Opaque"}));
    }

    #[test]
    fn a_service_port_targets_itself() {
        let service =
            defaulted("", "Service", json!({"spec": {"ports": [{"port": 80}, {"port": 1, "targetPort": "x"}]}}));
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 80);
        assert_eq!(service["spec"]["ports"][1]["targetPort"], "x");
        assert_eq!(service["spec"]["type"], "ClusterIP");
    }

    #[test]
    fn nulls_are_absent_fields_but_not_within_schemas() {
        let mut object = json!({"a": null, "b": [{"c": null}], "openAPIV3Schema": {"default": null}});
        drop_nulls(&mut object);
        assert_eq!(object, json!({"b": [{}], "openAPIV3Schema": {"default": null}}));
    }

    #[test]
    fn wrong_types_are_left_alone() {
        for kind in ["Pod", "Service", "Secret", "PersistentVolumeClaim", "Namespace", "Endpoints"] {
            defaulted("", kind, json!({"spec": 3, "status": [], "data": "x", "stringData": 1, "subsets": {}}));
        }
        defaulted("batch", "Job", json!({"spec": {"template": []}}));
        defaulted("apps", "Deployment", json!({"spec": {"strategy": "x", "template": {"spec": {"containers": 4}}}}));
    }
}
