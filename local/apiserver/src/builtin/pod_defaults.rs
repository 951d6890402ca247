//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use super::defaults::{each, quantities, quantity, set, within};

/// rw-r--r--
const FILE_MODE: u16 = 0o644;

pub(super) fn pod(object: &mut Value) {
    within(object, "spec", |fields| set(fields, "enableServiceLinks", true));
    spec(&mut object["spec"]);
    for list in ["containers", "initContainers"] {
        each(&mut object["spec"], list, requests_from_limits);
    }
    within(object, "status", |status| set(status, "phase", "Pending"));
}

/// The pod template below `spec.template`.
pub(super) fn template(object: &mut Value) {
    if let Some(found) = object.pointer_mut("/spec/template/spec") {
        spec(found);
    }
}

fn spec(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    set(fields, "restartPolicy", "Always");
    set(fields, "terminationGracePeriodSeconds", 30);
    set(fields, "dnsPolicy", "ClusterFirst");
    set(fields, "securityContext", Map::new());
    set(fields, "schedulerName", "default-scheduler");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, container);
    }
    each(spec, "volumes", volume);
}

fn container(container: &mut Map<String, Value>) {
    let policy = pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    if let Some(resources) = container.get_mut("resources") {
        quantities(resources.get_mut("limits"));
        quantities(resources.get_mut("requests"));
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(name).and_then(Value::as_object_mut) {
            probe(found);
        }
    }
    for hook in ["postStart", "preStop"] {
        let found = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)?.get_mut("httpGet"));
        http_get(found);
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().into_iter().for_each(|port| set(port, "protocol", "TCP"));
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(source) = variable.get_mut("valueFrom") {
            field_source(source);
        }
    }
}

/// Images that may change under their tag are pulled always.
fn pull_policy(image: &str) -> &'static str {
    let named = image.split_once('@').map_or(image, |(name, _)| name);
    let last = named.rsplit('/').next().unwrap_or(named);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match tag {
        _ if image.contains('@') => "IfNotPresent",
        None | Some("latest") => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn probe(probe: &mut Map<String, Value>) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    http_get(probe.get_mut("httpGet"));
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        set(grpc, "service", "");
    }
}

fn http_get(action: Option<&mut Value>) {
    if let Some(action) = action.and_then(Value::as_object_mut) {
        set(action, "path", "/");
        set(action, "scheme", "HTTP");
    }
}

/// A downward API source, of a variable or of a file.
fn field_source(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        set(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef").and_then(Value::as_object_mut) {
        set(resource, "divisor", "0");
        resource.get_mut("divisor").map(quantity).unwrap_or_default();
    }
}

/// A limit without a request is the request too.
fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    set(resources, "requests", Map::new());
    if let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) {
        for (name, limit) in limits {
            set(requests, &name, limit);
        }
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if !volume.keys().any(|key| key != "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for (key, source) in volume.iter_mut() {
        let Some(fields) = source.as_object_mut() else { continue };
        match key.as_str() {
            "secret" | "configMap" | "downwardAPI" | "projected" => set(fields, "defaultMode", FILE_MODE),
            "hostPath" => set(fields, "type", ""),
            "image" => {
                let policy = pull_policy(fields.get("reference").and_then(Value::as_str).unwrap_or_default());
                set(fields, "pullPolicy", policy);
            }
            "emptyDir" => fields.get_mut("sizeLimit").map(quantity).unwrap_or_default(),
            _ => {}
        }
        files(source);
        for projected in source.get_mut("sources").and_then(Value::as_array_mut).into_iter().flatten() {
            projected.get_mut("downwardAPI").map(files).unwrap_or_default();
            if let Some(token) = projected.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
                set(token, "expirationSeconds", 3600);
            }
        }
    }
}

/// Files of a downward API volume.
fn files(source: &mut Value) {
    for item in source.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        field_source(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_that_may_change_are_pulled_always() {
        let cases = [
            ("modelway", "Always"),
            ("a.b:5000/x", "Always"),
            ("x:latest", "Always"),
            ("x:1", "IfNotPresent"),
            ("a.b:5000/x:1", "IfNotPresent"),
            ("x@sha256:00", "IfNotPresent"),
        ];
        for (image, policy) in cases {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn probes_and_volumes_are_filled() {
        let mut object = json!({"spec": {
            "containers": [{"name": "c", "image": "x:1", "readinessProbe": {"httpGet": {"port": 1}},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}],
            "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}]}});
        pod(&mut object);
        let container = &object["spec"]["containers"][0];
        assert_eq!(container["readinessProbe"]["periodSeconds"], 10);
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/");
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(container["resources"]["requests"], json!({"cpu": "0.5", "memory": "1Gi"}));
        assert_eq!(object["spec"]["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(object["spec"]["volumes"][1]["configMap"]["defaultMode"], 420);
        assert_eq!(object["status"]["phase"], "Pending");
    }
}
