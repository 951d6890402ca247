//! Checks of pods and pod templates.

use modelway_schema::FieldError;
use serde_json::Value;

use super::{
    columns::list,
    labels::{annotations, duplicate, error, forbidden, invalid, labels, not_negative, one_of, required},
    quantity,
};
use crate::names::is_label;

pub(super) const DNS_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')";
/// Most letters of a port's name (IANA service names).
const PORT_NAME_LIMIT: usize = 15;

/// A label of at most 63 letters.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

pub(super) fn pod(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = spec("spec", &object["spec"]);
    if let Some(old) = old {
        errors.extend(update(&object["spec"], &old["spec"]));
    }
    errors
}

pub(super) fn template(template: &Value) -> Vec<FieldError> {
    let metadata = &template["metadata"];
    let mut errors = labels("spec.template.labels", &metadata["labels"]);
    errors.extend(annotations("spec.template.annotations", &metadata["annotations"]));
    errors.extend(spec("spec.template.spec", &template["spec"]));
    errors
}

fn spec(path: &str, spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes = list(spec, "/volumes");
    errors.extend(names(&format!("{path}.volumes"), volumes, &[]));
    errors.extend(sources(&format!("{path}.volumes"), volumes));
    let containers = list(spec, "/containers");
    let first = list(spec, "/initContainers");
    // An absent list is the schema's affair.
    if spec["containers"].is_array() && containers.is_empty() {
        errors.push(required(format!("{path}.containers"), ""));
    }
    errors.extend(names(&format!("{path}.containers"), containers, &[]));
    errors.extend(names(&format!("{path}.initContainers"), first, containers));
    for (list_name, group) in [("containers", containers), ("initContainers", first)] {
        for (index, item) in group.iter().enumerate() {
            errors.extend(container(&format!("{path}.{list_name}[{index}]"), item, volumes));
        }
    }
    errors.extend(one_of(format!("{path}.restartPolicy"), &spec["restartPolicy"], &["Always", "Never", "OnFailure"]));
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    errors.extend(one_of(format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &policies));
    errors
        .extend(not_negative(format!("{path}.terminationGracePeriodSeconds"), &spec["terminationGracePeriodSeconds"]));
    if spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(invalid(format!("{path}.activeDeadlineSeconds"), &spec["activeDeadlineSeconds"], why));
    }
    errors
}

/// Names are there, well-formed and used once, also among `others`.
fn names(path: &str, items: &[Value], others: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let (place, name) = (format!("{path}[{index}].name"), &item["name"]);
        let text = name.as_str().unwrap_or_default();
        let earlier = || items[..index].iter().chain(others).any(|other| other["name"] == *name);
        if text.is_empty() {
            errors.push(required(place, ""));
        } else if !is_dns_label(text) {
            errors.push(invalid(place, name, DNS_LABEL_RULE));
        } else if earlier() {
            errors.push(duplicate(place, name));
        }
    }
    errors
}

/// A volume is of one kind; of none, it is empty.
fn sources(path: &str, volumes: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let is_source = |(name, value): &(&String, &Value)| name.as_str() != "name" && value.is_object();
        let mut kinds = volume.as_object().into_iter().flatten().filter(is_source).map(|(name, _)| name);
        if kinds.next().is_none() {
            errors.push(required(format!("{path}[{index}]"), "must specify a volume type"));
        }
        let more =
            kinds.map(|kind| forbidden(format!("{path}[{index}].{kind}"), "may not specify more than 1 volume type"));
        errors.extend(more);
    }
    errors
}

fn container(path: &str, container: &Value, volumes: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if container["image"].as_str().is_none_or(|image| image.trim().is_empty()) {
        errors.push(required(format!("{path}.image"), ""));
    }
    errors.extend(one_of(
        format!("{path}.imagePullPolicy"),
        &container["imagePullPolicy"],
        &["Always", "IfNotPresent", "Never"],
    ));
    let policies = ["FallbackToLogsOnError", "File"];
    errors.extend(one_of(
        format!("{path}.terminationMessagePolicy"),
        &container["terminationMessagePolicy"],
        &policies,
    ));
    errors.extend(ports(&format!("{path}.ports"), list(container, "/ports")));
    errors.extend(environment(&format!("{path}.env"), list(container, "/env")));
    errors.extend(mounts(&format!("{path}.volumeMounts"), list(container, "/volumeMounts"), volumes));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[name].is_object() {
            errors.extend(probe(&format!("{path}.{name}"), &container[name], name));
        }
    }
    errors.extend(requests_within_limits(&format!("{path}.resources"), &container["resources"]));
    errors
}

fn ports(path: &str, ports: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let place = format!("{path}[{index}].containerPort");
        if port["containerPort"] == 0 {
            errors.push(required(place, ""));
        } else {
            errors.extend(port_number(&place, &port["containerPort"]));
        }
        errors.extend(one_of(format!("{path}[{index}].protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]));
        let name = &port["name"];
        if let Some(text) = name.as_str().filter(|text| !text.is_empty()) {
            errors.extend(port_name_fault(text).map(|why| invalid(format!("{path}[{index}].name"), name, why)));
            if ports[..index].iter().any(|earlier| earlier["name"] == *name) {
                errors.push(duplicate(format!("{path}[{index}].name"), name));
            }
        }
    }
    errors
}

fn port_name_fault(name: &str) -> Option<&'static str> {
    if name.len() > PORT_NAME_LIMIT {
        Some("must be no more than 15 characters")
    } else if !is_dns_label(name) || name.contains("--") {
        Some("must contain only alphanumeric characters (a-z, 0-9), and hyphens (-), single and not at the ends")
    } else if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Some("must contain at least one letter (a-z)")
    } else {
        None
    }
}

/// Refuses a number that is no port; absent ones are the schema's affair.
pub(super) fn port_number(path: &str, port: &Value) -> Option<FieldError> {
    let outside = port.as_i64().is_some_and(|number| !(1..=65535).contains(&number));
    outside.then(|| invalid(path, port, "must be between 1 and 65535, inclusive"))
}

/// A port by its number or by its name in the pod.
pub(super) fn port_reference(path: &str, port: &Value) -> Option<FieldError> {
    match port.as_str() {
        Some(name) => port_name_fault(name).map(|why| invalid(path, port, why)),
        None => port_number(path, port),
    }
}

fn environment(path: &str, variables: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let place = format!("{path}[{index}]");
        match variable["name"].as_str() {
            None | Some("") => errors.push(required(format!("{place}.name"), "")),
            Some(name) if name.contains('=') || name.chars().any(char::is_control) => {
                let why = "environment variable names must be printable ASCII characters other than '='";
                errors.push(invalid(format!("{place}.name"), &variable["name"], why));
            }
            Some(_) => {}
        }
        let source = &variable["valueFrom"];
        if source.is_null() {
            continue;
        }
        if variable["value"].as_str().is_some_and(|value| !value.is_empty()) {
            let why = "may not be specified when `value` is not empty";
            errors.push(invalid(format!("{place}.valueFrom"), &"".into(), why));
        }
        let sources = source.as_object().map_or(0, serde_json::Map::len);
        if sources != 1 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`";
            errors.push(invalid(format!("{place}.valueFrom"), &"".into(), why));
        }
    }
    errors
}

fn mounts(path: &str, mounts: &[Value], volumes: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, mount) in mounts.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let name = &mount["name"];
        if name.as_str().is_none_or(str::is_empty) {
            errors.push(required(format!("{place}.name"), ""));
        } else if !volumes.iter().any(|volume| volume["name"] == *name) {
            let kind = modelway_schema::FieldErrorKind::NotFound;
            errors.push(error(format!("{place}.name"), kind, format!("Not found: {name}")));
        }
        let at = &mount["mountPath"];
        if at.as_str().is_none_or(str::is_empty) {
            errors.push(required(format!("{place}.mountPath"), ""));
        } else if mounts[..index].iter().any(|earlier| earlier["mountPath"] == *at) {
            errors.push(invalid(format!("{place}.mountPath"), at, "must be unique"));
        }
        let below = mount["subPath"].as_str().unwrap_or_default();
        if below.starts_with('/') {
            errors.push(invalid(format!("{place}.subPath"), &mount["subPath"], "must be a relative path"));
        } else if below.split('/').any(|part| part == "..") {
            errors.push(invalid(format!("{place}.subPath"), &mount["subPath"], "must not contain '..'"));
        }
    }
    errors
}

fn probe(path: &str, probe: &Value, name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
    match handlers.iter().filter(|handler| probe[**handler].is_object()).count() {
        0 => errors.push(required(path, "must specify a handler type")),
        1 => {}
        _ => errors.push(forbidden(path, "may not specify more than 1 handler type")),
    }
    errors.extend(port_reference(&format!("{path}.httpGet.port"), &probe["httpGet"]["port"]));
    errors.extend(port_reference(&format!("{path}.tcpSocket.port"), &probe["tcpSocket"]["port"]));
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.extend(not_negative(format!("{path}.{field}"), &probe[field]));
    }
    let successes = probe["successThreshold"].as_i64().unwrap_or(1);
    if name != "readinessProbe" && successes != 1 {
        errors.push(invalid(format!("{path}.successThreshold"), &probe["successThreshold"], "must be 1"));
    }
    errors
}

/// Amounts are not negative, and no request is above its limit.
fn requests_within_limits(path: &str, resources: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for side in ["limits", "requests"] {
        for (name, asked) in resources[side].as_object().into_iter().flatten() {
            if quantity::of(asked).is_some_and(|amount| amount < 0.0) {
                let place = format!("{path}.{side}[{name}]");
                errors.push(invalid(place, asked, "must be greater than or equal to 0"));
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let (Some(asked), Some(most)) = (quantity::of(request), quantity::of(limit)) else { continue };
        if asked > most {
            let text = limit.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {text}");
            errors.push(invalid(format!("{path}.requests"), request, &why));
        }
    }
    errors
}

/// A pod is what it is: only images, deadlines, tolerations and the node of an unscheduled pod may change.
fn update(spec: &Value, old: &Value) -> Option<FieldError> {
    let mut before = old.clone();
    let (Some(target), Some(source)) = (before.as_object_mut(), spec.as_object()) else { return None };
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"];
    if target.get("nodeName").and_then(Value::as_str).is_none_or(str::is_empty) {
        free.push("nodeName");
    }
    for key in free {
        match source.get(key) {
            Some(value) => target.insert(key.to_owned(), value.clone()),
            None => target.remove(key),
        };
    }
    for key in ["containers", "initContainers"] {
        let replaced = list(spec, &format!("/{key}")).iter();
        let items = target.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (item, replaced) in items.zip(replaced) {
            let Some(item) = item.as_object_mut() else { continue };
            for field in ["image", "imagePullPolicy"] {
                if let Some(value) = replaced.get(field) {
                    item.insert(field.to_owned(), value.clone());
                }
            }
        }
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`, \
               `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.terminationGracePeriodSeconds`, \
               `spec.tolerations`";
    (before != *spec).then(|| forbidden("spec", why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(container: Value, volumes: &Value) -> Value {
        let mut base = json!({"name": "c", "image": "x:1", "imagePullPolicy": "Always"});
        if let (Value::Object(base), Value::Object(more)) = (&mut base, container) {
            base.extend(more);
        }
        json!({"spec": {"containers": [base], "volumes": volumes, "restartPolicy": "Never"}})
    }

    fn first_path(object: &Value) -> String {
        pod(object, None).first().map(|error| error.path.clone()).unwrap_or_default()
    }

    #[test]
    fn what_users_get_wrong_is_named() {
        let cases = [
            (json!({"name": "Bad_Name"}), "spec.containers[0].name"),
            (json!({"image": ""}), "spec.containers[0].image"),
            (json!({"imagePullPolicy": "Sometimes"}), "spec.containers[0].imagePullPolicy"),
            (json!({"ports": [{"containerPort": 0}]}), "spec.containers[0].ports[0].containerPort"),
            (
                json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {}}}]}),
                "spec.containers[0].env[0].valueFrom",
            ),
            (json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]}), "spec.containers[0].volumeMounts[0].name"),
            (json!({"readinessProbe": {}}), "spec.containers[0].readinessProbe"),
            (json!({"resources": {"requests": {"memory": "-1"}}}), "spec.containers[0].resources.requests[memory]"),
            (
                json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}}),
                "spec.containers[0].resources.requests",
            ),
        ];
        for (container, path) in cases {
            assert_eq!(first_path(&given(container, &json!([]))), path);
        }
        let two = json!([{"name": "v", "emptyDir": {}, "secret": {}}]);
        assert_eq!(first_path(&given(json!({}), &two)), "spec.volumes[0].secret");
        let mounted = json!({"volumeMounts": [{"name": "v", "mountPath": "/x"}], "ports": [{"containerPort": 80}]});
        assert_eq!(first_path(&given(mounted, &json!([{"name": "v", "emptyDir": {}}]))), "");
        assert_eq!(first_path(&json!({"spec": {"containers": []}})), "spec.containers");
    }

    #[test]
    fn a_pod_may_get_a_node_and_an_image_but_nothing_else() {
        let old = given(json!({}), &json!([]));
        let mut new = old.clone();
        new["spec"]["nodeName"] = "local".into();
        new["spec"]["containers"][0]["image"] = "y".into();
        assert_eq!(pod(&new, Some(&old)), []);
        new["spec"]["containers"][0]["command"] = json!(["x"]);
        assert_eq!(pod(&new, Some(&old)).len(), 1);
        let mut moved = new.clone();
        moved["spec"]["nodeName"] = "other".into();
        assert_eq!(pod(&moved, Some(&new)).len(), 1);
    }
}
