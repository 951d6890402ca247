//! Checks of built-in kinds that no schema can say.

use base64::{Engine, engine::general_purpose::STANDARD};
use modelway_schema::{FieldError, FieldErrorKind};
use serde_json::Value;

use super::{
    columns::list,
    job_validation,
    labels::{duplicate, error, forbidden, invalid, labels, not_negative, one_of, required, selector, selects},
    pod_validation::{self, is_dns_label},
};

/// Data of a `ConfigMap` or Secret, as in Kubernetes.
const DATA_LIMIT: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable";

/// What is wrong with an object of a built-in kind beyond its schema and its own metadata; `old` is the stored object
/// on an update. Other kinds have no such checks.
pub fn validate_object(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod_validation::pod(object, old),
        ("", "Service") => service(object, old),
        ("", "ConfigMap" | "Secret") => data(kind, object, old),
        ("", "PersistentVolumeClaim") => claim(object, old),
        ("apps", "Deployment") => deployment(object, old),
        ("apps", "ReplicaSet") => replicated(object, old),
        ("batch", "Job") => job_validation::job(object, old),
        ("discovery.k8s.io", "EndpointSlice") => immutable(object, old, &["addressType"]),
        ("policy", "PodDisruptionBudget") => budget(object),
        _ => Vec::new(),
    }
}

/// The fields (by dotted path) that differ from the stored object.
pub(super) fn immutable(object: &Value, old: Option<&Value>, fields: &[&str]) -> Vec<FieldError> {
    let Some(old) = old else { return Vec::new() };
    let at = |value: &Value, field: &str| value.pointer(&format!("/{}", field.replace('.', "/"))).cloned();
    let changed = fields.iter().filter(|field| at(object, field) != at(old, field));
    changed.map(|field| invalid(*field, &at(object, field).unwrap_or_default(), IMMUTABLE)).collect()
}

fn deployment(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = replicated(object, old);
    let spec = &object["spec"];
    let strategy = &spec["strategy"];
    errors.extend(one_of("spec.strategy.type", &strategy["type"], &["Recreate", "RollingUpdate"]));
    if strategy["type"] == "Recreate" && strategy["rollingUpdate"].is_object() {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(forbidden("spec.strategy.rollingUpdate", why));
    }
    let rolling = &strategy["rollingUpdate"];
    for field in ["maxUnavailable", "maxSurge"] {
        let path = format!("spec.strategy.rollingUpdate.{field}");
        errors.extend(number_or_percent(&path, &rolling[field]));
    }
    let none = |value: &Value| value == 0 || value == "0%";
    if none(&rolling["maxUnavailable"]) && none(&rolling["maxSurge"]) {
        let why = "may not be 0 when `maxSurge` is 0";
        errors.push(invalid("spec.strategy.rollingUpdate.maxUnavailable", &rolling["maxUnavailable"], why));
    }
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.extend(not_negative(format!("spec.{field}"), &spec[field]));
    }
    errors
}

fn number_or_percent(path: &str, value: &Value) -> Option<FieldError> {
    let Some(text) = value.as_str() else { return not_negative(path, value) };
    let digits = text.strip_suffix('%').filter(|digits| digits.parse::<u32>().is_ok());
    let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%')";
    digits.is_none().then(|| invalid(path, value, why))
}

/// What Deployments and `ReplicaSet`s have in common.
fn replicated(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = immutable(object, old, &["spec.selector"]);
    errors.extend(not_negative("spec.replicas", &spec["replicas"]));
    errors.extend(selection(spec));
    errors.extend(pod_validation::template(&spec["template"]));
    errors.extend(one_of("spec.template.spec.restartPolicy", &spec["template"]["spec"]["restartPolicy"], &["Always"]));
    errors
}

/// The selector selects the template's pods. That both are there is the schema's affair.
fn selection(spec: &Value) -> Vec<FieldError> {
    let (wanted, template) = (&spec["selector"], &spec["template"]);
    if !wanted.is_object() {
        return Vec::new();
    }
    let no_labels = wanted["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty);
    if no_labels && list(wanted, "/matchExpressions").is_empty() {
        return vec![invalid("spec.selector", wanted, "empty selector is invalid")];
    }
    let mut errors = selector("spec.selector", wanted);
    let labels = &template["metadata"]["labels"];
    if template.is_object() && !selects(wanted, labels) {
        errors.push(invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"));
    }
    errors
}

fn service(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = labels("spec.selector", &spec["selector"]);
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(one_of("spec.type", &spec["type"], &types));
    errors.extend(one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]));
    let ports = list(spec, "/ports");
    let external = spec["type"] == "ExternalName";
    if external && spec["externalName"].as_str().is_none_or(str::is_empty) {
        errors.push(required("spec.externalName", ""));
    }
    if ports.is_empty() && !external && spec["clusterIP"] != "None" {
        errors.push(required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        errors.extend(service_port(&format!("spec.ports[{index}]"), port, ports.len() > 1));
        let (name, taken) = (&port["name"], &ports[..index]);
        if name.is_string() && taken.iter().any(|earlier| earlier["name"] == *name) {
            errors.push(duplicate(format!("spec.ports[{index}].name"), name));
        }
        let same = |earlier: &Value| earlier["port"] == port["port"] && earlier["protocol"] == port["protocol"];
        if taken.iter().any(same) {
            errors.push(duplicate(format!("spec.ports[{index}]"), port));
        }
    }
    let had_address = old.is_some_and(|old| old["spec"]["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty()));
    if had_address && !external {
        errors.extend(immutable(object, old, &["spec.clusterIP"]));
    }
    errors
}

fn service_port(path: &str, port: &Value, must_have_name: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match port["name"].as_str() {
        None | Some("") if must_have_name => errors.push(required(format!("{path}.name"), "")),
        Some(name) if !name.is_empty() && !is_dns_label(name) => {
            errors.push(invalid(format!("{path}.name"), &port["name"], pod_validation::DNS_LABEL_RULE));
        }
        _ => {}
    }
    errors.extend(pod_validation::port_number(&format!("{path}.port"), &port["port"]));
    errors.extend(pod_validation::port_reference(&format!("{path}.targetPort"), &port["targetPort"]));
    errors.extend(one_of(format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]));
    errors
}

fn data(kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            let path = format!("{field}[{key}]");
            if !is_data_key(key) {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                errors.push(invalid(&path, &key.as_str().into(), why));
            }
            let text = value.as_str().unwrap_or_default();
            let encoded = kind == "Secret" || field == "binaryData";
            match STANDARD.decode(if encoded { text } else { "" }) {
                Ok(bytes) => size += if encoded { bytes.len() } else { text.len() },
                Err(_) => errors.push(invalid(path, &Value::Null, "must be base64 (use `stringData` for plain text)")),
            }
        }
    }
    if size > DATA_LIMIT {
        errors.push(error(
            "data",
            FieldErrorKind::TooLong,
            format!("Too long: may not be more than {DATA_LIMIT} bytes"),
        ));
    }
    if kind == "Secret" {
        errors.extend(immutable(object, old, &["type"]));
    }
    if old.is_some_and(|old| old["immutable"] == true) {
        let changed = immutable(object, old, &["data", "binaryData", "immutable"]);
        errors.extend(
            changed.into_iter().map(|changed| forbidden(changed.path, "field is immutable when `immutable` is set")),
        );
    }
    errors
}

fn is_data_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..") && key.bytes().all(allowed)
}

fn claim(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let modes = list(spec, "/accessModes");
    if modes.is_empty() {
        errors.push(required("spec.accessModes", "at least 1 access mode is required"));
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    errors.extend(modes.iter().filter_map(|mode| one_of("spec.accessModes", mode, &known)));
    if spec.pointer("/resources/requests/storage").is_none() {
        errors.push(required("spec.resources[storage]", ""));
    }
    if let Some(old) = old
        && fixed_claim(spec, &old["spec"]) != fixed_claim(&old["spec"], &old["spec"])
    {
        errors.push(forbidden("spec", "spec is immutable after creation except resources.requests for bound claims"));
    }
    errors
}

/// What of a claim's spec may not change: it may grow, and be bound once.
fn fixed_claim(spec: &Value, old: &Value) -> Option<serde_json::Map<String, Value>> {
    let mut fixed = spec.as_object()?.clone();
    fixed.retain(|_, value| !value.is_null());
    fixed.shift_remove("resources");
    if old["volumeName"].as_str().is_none_or(str::is_empty) {
        fixed.shift_remove("volumeName");
    }
    Some(fixed)
}

fn budget(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = selector("spec.selector", &spec["selector"]);
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(invalid("spec", spec, why));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        errors.extend(number_or_percent(&format!("spec.{field}"), &spec[field]));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(errors: &[FieldError]) -> Vec<&str> {
        errors.iter().map(|error| error.path.as_str()).collect()
    }

    fn web() -> Value {
        json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "x"}]}}}})
    }

    fn train() -> Value {
        json!({"metadata": {"name": "train"}, "spec": {"completionMode": "NonIndexed", "completions": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}})
    }

    #[test]
    fn a_good_deployment_passes() {
        assert_eq!(validate_object("apps", "Deployment", &web(), Some(&web())), []);
    }

    #[test]
    fn a_selector_must_match_the_template_and_never_changes() {
        let mut other = web();
        other["spec"]["selector"]["matchLabels"]["app"] = "api".into();
        let errors = validate_object("apps", "Deployment", &other, Some(&web()));
        assert_eq!(paths(&errors), ["spec.selector", "spec.template.metadata.labels"]);
        assert!(errors[0].message.ends_with("field is immutable"));
    }

    #[test]
    fn a_job_keeps_its_template_and_ends() {
        let mut changed = train();
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = "y".into();
        assert_eq!(paths(&validate_object("batch", "Job", &changed, Some(&train()))), ["spec.template"]);
        changed["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
        assert_eq!(paths(&validate_object("batch", "Job", &changed, None)), ["spec.template.spec.restartPolicy"]);
    }

    #[test]
    fn several_service_ports_need_names() {
        let service = json!({"spec": {"type": "ClusterIP", "ports": [
            {"port": 80, "name": "a", "protocol": "TCP"}, {"port": 70000, "protocol": "TCP"}]}});
        assert_eq!(
            paths(&validate_object("", "Service", &service, None)),
            ["spec.ports[1].name", "spec.ports[1].port"]
        );
    }

    #[test]
    fn secrets_hold_base64_and_immutable_ones_stay() {
        let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "Yg=="}});
        let new = json!({"type": "Opaque", "immutable": true, "data": {"a": "?"}});
        assert_eq!(paths(&validate_object("", "Secret", &new, Some(&old))), ["data[a]", "data"]);
    }

    #[test]
    fn a_claim_may_be_bound_and_grow_but_not_change() {
        let claim = |storage: &str, volume: Option<&str>, mode: &str| {
            json!({"spec": {"accessModes": [mode], "resources": {"requests": {"storage": storage}},
                "volumeName": volume}})
        };
        let old = claim("1Gi", None, "ReadWriteOnce");
        let check = |new: &Value| validate_object("", "PersistentVolumeClaim", new, Some(&old));
        assert_eq!(check(&claim("2Gi", Some("v"), "ReadWriteOnce")), []);
        assert_eq!(paths(&check(&claim("2Gi", None, "ReadWriteMany"))), ["spec"]);
    }

    #[test]
    fn odd_shapes_do_not_panic() {
        for kind in crate::builtin::builtin_kinds() {
            let (group, kind) = (kind.group.as_str(), kind.kind.as_str());
            let shapes = [
                json!(null),
                json!([1]),
                json!({"metadata": 1, "spec": [], "data": 4, "status": ""}),
                json!({"spec": {"ports": [1], "template": 3, "containers": {}, "accessModes": 1, "selector": ""}}),
                json!({"spec": {"containers": [1, [], {"env": [2], "ports": {}, "volumeMounts": [null]}],
                    "template": {"spec": {"containers": [{"name": 1, "resources": [], "readinessProbe": 1}]}}}}),
            ];
            for new in &shapes {
                let mut defaulted = new.clone();
                crate::builtin::default_object(group, kind, &mut defaulted);
                for old in &shapes {
                    validate_object(group, kind, new, Some(old));
                    validate_object(group, kind, &defaulted, Some(old));
                }
            }
        }
    }
}
