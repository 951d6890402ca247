//! A predictor's pod template: the user's, edited at named paths; or the built-in server's.

use modelway_api::{
    duration,
    inference::{Batching, Predictor},
};
use serde_json::{Map, Value, json};

use crate::{
    json as read,
    manifest::{container_security, pod_security},
    mount::{self, MODEL_PATH_VARIABLE, MountedModel},
};

/// Port of a server that declares none.
pub const DEFAULT_HTTP_PORT: i64 = 8080;
/// Names of the port that takes HTTP, in order; else the first declared one.
const HTTP_PORT_NAMES: [&str; 3] = ["predictor-http-port", "http", "http1"];

/// The pod template with the model in it. `None` when a predictor has neither template nor model.
pub fn render(
    predictor: &Predictor,
    image: &str,
    labels: &Map<String, Value>,
    model: Option<&MountedModel>,
) -> Option<Value> {
    let mut template = match (&predictor.template, model) {
        (Some(template), _) => template.clone(),
        (None, Some(model)) => built_in(predictor, image, model),
        (None, None) => return None,
    };
    for field in ["name", "namespace", "creationTimestamp", "generateName"] {
        if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove(field);
        }
    }
    put_labels(&mut template, labels);
    keep_last_words(&mut template);
    if let Some(model) = model {
        mount::put(&mut template["spec"], model);
    }
    Some(template)
}

fn put_labels(template: &mut Value, labels: &Map<String, Value>) {
    let metadata = object(object(template).entry("metadata").or_insert_with(|| json!({})));
    let all = object(metadata.entry("labels").or_insert_with(|| json!({})));
    all.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// Lets a container that fails without a message leave its last log lines, unless its author decided otherwise.
fn keep_last_words(template: &mut Value) {
    for list in ["/spec/initContainers", "/spec/containers"] {
        let containers = template.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.entry("terminationMessagePolicy").or_insert_with(|| "FallbackToLogsOnError".into());
        }
    }
}

/// Whether a container asks for a GPU, by the resource's name.
pub fn has_gpu(predictor: &Predictor) -> bool {
    let template = predictor.template.as_ref().unwrap_or(&Value::Null);
    let limits = read::items(template, "/spec/containers").flat_map(|container| {
        ["requests", "limits"].into_iter().filter_map(|kind| container["resources"][kind].as_object())
    });
    let mut names = limits.flat_map(|resources| resources.keys());
    names.any(|name| {
        let name = name.rsplit('/').next().unwrap_or_default();
        name.starts_with("gpu") || name.starts_with("mig-") || name.ends_with("gpu") || name.ends_with("gpu.shared")
    })
}

/// The value as an object; anything else is replaced by an empty one and the API server says what is missing.
pub(crate) fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made an object")
}

/// The value as an array, likewise.
pub(crate) fn array(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = json!([]);
    }
    value.as_array_mut().expect("it was just made an array")
}

/// The built-in ONNX server.
fn built_in(predictor: &Predictor, image: &str, model: &MountedModel) -> Value {
    let path = format!("$({MODEL_PATH_VARIABLE})");
    let listen = format!("$(POD_IP):{DEFAULT_HTTP_PORT}");
    let mut command =
        vec!["modelway", "runtime", "onnx", "--model", &path, "--name", &model.model.model, "--listen", &listen]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
    command.extend(batching(predictor.batching.as_ref()));
    json!({
        "metadata": {},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 30,
            "securityContext": pod_security(),
            "containers": [{
                "name": "server",
                "image": image,
                "command": command,
                "env": [{ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }],
                "ports": [{ "name": "http", "containerPort": DEFAULT_HTTP_PORT, "protocol": "TCP" }],
                "readinessProbe": {
                    "httpGet": { "path": "/v2/health/ready", "port": "http" },
                    "periodSeconds": 1,
                    "timeoutSeconds": 1,
                    "failureThreshold": 3,
                },
                "securityContext": container_security(),
            }],
        },
    })
}

/// Flags of the built-in server; unreadable durations are refused before (see [`problem`]).
fn batching(batching: Option<&Batching>) -> Vec<String> {
    let Some(batching) = batching else { return Vec::new() };
    let mut flags = Vec::new();
    if let Some(size) = batching.batch_size {
        flags.extend(["--max-batch-size".to_owned(), size.to_string()]);
    }
    let seconds = batching.timeout_seconds.map(|seconds| format!("{seconds}s"));
    if let Some(delay) = batching.timeout.clone().or(seconds) {
        flags.extend(["--max-batch-delay".to_owned(), delay]);
    }
    flags
}

/// What is wrong with a predictor's own values, naming the field.
pub fn problem(predictor: &Predictor) -> Option<String> {
    let timeout = predictor.batching.as_ref()?.timeout.as_ref()?;
    let error = duration::parse(timeout).err()?;
    Some(format!("predictor {}: batching.timeout: {error}", predictor.name))
}

/// The port of the first container that takes HTTP: by name where it has one, else by number.
pub fn http_port(template: &Value) -> Value {
    let ports: Vec<&Value> =
        read::items(template, "/spec/containers").flat_map(|container| read::items(container, "/ports")).collect();
    let named = HTTP_PORT_NAMES.iter().find_map(|name| ports.iter().find(|port| port["name"] == *name));
    let Some(port) = named.or_else(|| ports.first()) else { return DEFAULT_HTTP_PORT.into() };
    port.get("name").filter(|name| name.is_string()).unwrap_or(&port["containerPort"]).clone()
}

/// The port that takes gRPC, when one is declared.
pub fn grpc_port(template: &Value) -> Option<Value> {
    let mut ports = read::items(template, "/spec/containers").flat_map(|container| read::items(container, "/ports"));
    let port = ports.find(|port| matches!(read::name_of(port), "predictor-grpc-port" | "grpc"))?;
    Some(port["name"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mount::Means, resolve::ServedModel};

    fn model() -> MountedModel {
        let image = format!("r/a@sha256:{}", "0".repeat(64));
        let (version, model) = ("mv-a".to_owned(), "digits".to_owned());
        let model = ServedModel { version, model, image, registry_secret: None };
        MountedModel { model, path: "/kubedl-model/mv-a".to_owned(), means: Means::ImageVolume { pull_secret: None } }
    }

    fn rendered(template: Option<Value>) -> Value {
        let predictor = Predictor { name: "a".to_owned(), template, ..Predictor::default() };
        render(&predictor, "modelway:test", &Map::new(), Some(&model())).unwrap()
    }

    #[test]
    fn users_template_keeps_what_we_do_not_know() {
        let template = rendered(Some(json!({
            "metadata": {"name": "x", "annotations": {"a": "b"}},
            "spec": {"newField": {"deep": [1]}, "containers": [
                {"name": "s", "image": "i", "env": [{"name": "A", "value": "$(KUBEDL_MODEL_PATH)/x"}], "unknown": true}]},
        })));
        assert_eq!(template["spec"]["newField"], json!({"deep": [1]}));
        assert_eq!(template["metadata"], json!({"annotations": {"a": "b"}, "labels": {}}));
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["unknown"], true);
        assert_eq!(container["env"][0], json!({"name": "KUBEDL_MODEL_PATH", "value": "/kubedl-model/mv-a"}));
        assert_eq!(container["volumeMounts"][0]["subPath"], "models");
        assert!(template["spec"]["volumes"][0]["image"]["reference"].as_str().unwrap().contains("@sha256:"));
    }

    #[test]
    fn failing_containers_leave_their_last_log_lines_unless_told_otherwise() {
        let containers = json!([{"name": "a"}, {"name": "b", "terminationMessagePolicy": "File"}]);
        let template = rendered(Some(json!({"spec": {"containers": containers}})));
        let policy = |index: usize| &template["spec"]["containers"][index]["terminationMessagePolicy"];
        assert_eq!((policy(0), policy(1)), (&json!("FallbackToLogsOnError"), &json!("File")));
    }

    #[test]
    fn broken_templates_do_not_panic() {
        for template in [json!({}), json!({"spec": 3}), json!({"spec": {"containers": ["x"], "volumes": 1}}), json!([])]
        {
            let _ = rendered(Some(template));
        }
    }

    #[test]
    fn built_in_server_gets_its_flags_and_probe() {
        let batching = Batching { batch_size: Some(8), timeout: Some("2ms".to_owned()), ..Batching::default() };
        let predictor = Predictor { name: "a".to_owned(), batching: Some(batching), ..Predictor::default() };
        let template = render(&predictor, "modelway:test", &Map::new(), Some(&model())).unwrap();
        let command = template["spec"]["containers"][0]["command"].to_string();
        assert!(command.contains(r#""--max-batch-size","8","--max-batch-delay","2ms""#), "{command}");
        assert_eq!(http_port(&template), "http");
    }

    #[test]
    fn ports_by_name_then_declared_then_default() {
        let template = |ports: Value| json!({"spec": {"containers": [{"ports": ports}]}});
        assert_eq!(http_port(&template(json!([{"containerPort": 1}, {"name": "http", "containerPort": 2}]))), "http");
        assert_eq!(http_port(&template(json!([{"containerPort": 8501}]))), 8501);
        assert_eq!(http_port(&Value::Null), 8080);
    }
}
