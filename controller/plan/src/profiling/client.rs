//! The Job that puts a trial's service under load: the user's own, or Modelway's load generator.

use modelway_api::{labels, names, trial::TrialSpec};
use serde_json::{Map, Value, json};

use super::{
    cores::{self, Side},
    load::{LoadPlan, PAYLOADS},
    service::{SERVICE_PORT, labels as trial_labels, pod_labels, port_number},
    template::{put_variable, variable},
};
use crate::{
    context::Context,
    json as read,
    manifest::{container_security, manifest, pod_security},
    template::{array, object},
    world::Kind,
};

/// A client of the user's own must end within this time, unless it sets `activeDeadlineSeconds`.
const OWN_CLIENT_SECONDS: i64 = 3_600;
/// Longest wait of the load generator for a first good answer.
const FIRST_ANSWER: &str = "60s";
const RESULT_FILE: &str = "/dev/termination-log";

/// Where the service is, once it is ready.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// Of its pod.
    pub pod: &'a str,
    /// Of its Service, where that is a number that can be reached without names.
    pub service: Option<&'a str>,
}

/// The user's own Job.
pub fn own(cx: &Context, trial: &Value, spec: &TrialSpec, client: &Value, address: Address) -> Value {
    let name = read::name(trial);
    let mut job = manifest(Kind::Job, &names::trial_client(name), trial, trial_labels(trial));
    let mut inside = client.get("spec").cloned().unwrap_or_else(|| json!({}));
    let fields = object(&mut inside);
    fields.entry("backoffLimit").or_insert_with(|| 0.into());
    fields.entry("activeDeadlineSeconds").or_insert_with(|| OWN_CLIENT_SECONDS.into());
    // It would be gone before anybody had read what it says.
    fields.shift_remove("ttlSecondsAfterFinished");
    let template = object(fields.entry("template").or_insert_with(|| json!({})));
    label(template, trial);
    cores::ask(template, Side::Client, true);
    let pod = object(template.entry("spec").or_insert_with(|| json!({})));
    pod.entry("restartPolicy").or_insert_with(|| "Never".into());
    pod.entry("affinity").or_insert_with(|| apart_from_service(trial));
    let variables = variables(cx, trial, spec, address);
    for container in array(pod.entry("containers").or_insert_with(|| json!([]))) {
        object(container).entry("terminationMessagePolicy").or_insert_with(|| "FallbackToLogsOnError".into());
        for (name, value) in variables.iter().rev() {
            put_variable(container, name, value);
        }
    }
    job["spec"] = inside;
    job
}

/// What Morphling tells its clients.
fn variables(cx: &Context, trial: &Value, spec: &TrialSpec, address: Address) -> Vec<(String, String)> {
    let (name, namespace) = (read::name(trial), read::text(trial, "/metadata/namespace"));
    let host = address.service.map_or_else(|| names::trial_service(name), str::to_owned);
    let mut variables = vec![
        ("RequestTemplate".to_owned(), literal(spec.request_template.as_deref().unwrap_or_default())),
        ("ServiceName".to_owned(), format!("{host}:{SERVICE_PORT}")),
        ("TrialName".to_owned(), name.to_owned()),
        ("Namespace".to_owned(), namespace.to_owned()),
        ("DBNamespace".to_owned(), cx.settings.results_namespace.clone()),
        ("DBPort".to_owned(), cx.settings.results_port.to_string()),
    ];
    variables.extend(cx.settings.results_address.iter().map(|address| ("DBAddress".to_owned(), address.clone())));
    variables.extend(spec.sampling_result.iter().map(|value| (variable(&value.name), literal(&value.value))));
    variables
}

/// Modelway's load generator.
pub fn built_in(cx: &Context, trial: &Value, spec: &TrialSpec, load: &LoadPlan, address: Address) -> Value {
    let mut job = manifest(Kind::Job, &names::trial_client(read::name(trial)), trial, trial_labels(trial));
    let url = format!("http://{}:{}{}", bracketed(address.pod), port_number(spec), load.path);
    let mut command: Vec<String> = ["modelway", "load", &url].map(literal).to_vec();
    command.extend(load.arguments.iter().map(|argument| literal(argument)));
    command.extend(["--wait", FIRST_ANSWER, "--output", "json", "--result", RESULT_FILE].map(str::to_owned));
    let mut container = json!({
        "name": "load",
        "image": cx.settings.image,
        "command": command,
        "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } },
        "terminationMessagePath": RESULT_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
    });
    let mut template = Map::new();
    label(&mut template, trial);
    cores::ask(&mut template, Side::Client, false);
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "securityContext": pod_security(),
        "affinity": apart_from_service(trial),
    });
    if let Some(payloads) = &load.payloads {
        container["volumeMounts"] = json!([{ "name": "payloads", "mountPath": PAYLOADS, "readOnly": true }]);
        pod["volumes"] = json!([{ "name": "payloads", "configMap": { "name": payloads } }]);
    }
    pod["containers"] = json!([container]);
    template.insert("spec".to_owned(), pod);
    job["spec"] = json!({
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "activeDeadlineSeconds": load.limit.as_secs().max(1),
        "template": template,
    });
    job
}

fn label(template: &mut Map<String, Value>, trial: &Value) {
    let metadata = object(template.entry("metadata").or_insert_with(|| json!({})));
    let all = object(metadata.entry("labels").or_insert_with(|| json!({})));
    all.extend(pod_labels(trial));
    all.insert(labels::APP_COMPONENT.to_owned(), labels::component::LOAD.into());
}

/// On another node than the service where there is one: what shares cores measures itself.
fn apart_from_service(trial: &Value) -> Value {
    let name = read::name(trial);
    json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": { labels::TRIAL: name, labels::DEPLOYMENT: names::trial_deployment(name) } },
        },
    }] } })
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Keeps Kubernetes from expanding `$(NAME)`.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::{Settings, World};

    fn trial() -> Value {
        json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "Trial",
            "metadata": {"name": "t", "namespace": "n", "uid": "u", "labels": {"experiment": "e"}}})
    }

    fn with<T>(make: impl FnOnce(&Context) -> T) -> T {
        let (world, settings) = (World::default(), Settings::default());
        make(&Context { world: &world, settings: &settings, now: Timestamp::UNIX_EPOCH, entropy: [0; 16] })
    }

    const ADDRESS: Address = Address { pod: "10.0.0.1", service: None };

    #[test]
    fn a_client_of_ones_own_gets_what_morphling_tells_it() {
        let value = |name: &str, value: &str| json!({"name": name, "value": value, "category": "env"});
        let spec: TrialSpec = serde_json::from_value(json!({"requestTemplate": "{\"a\": \"$(x)\"}",
            "samplingResult": [value("batch.size", "8"), value("cpu", "2")]}))
        .unwrap();
        let client = json!({"metadata": {}, "spec": {"backoffLimit": 1, "ttlSecondsAfterFinished": 0, "template": {"spec": {
            "restartPolicy": "OnFailure", "containers": [{"name": "pi", "env": [{"name": "MODEL", "value": "m"}]}]}}}});
        let job = with(|cx| own(cx, &trial(), &spec, &client, ADDRESS));
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], &job["spec"]["backoffLimit"]), (&json!("OnFailure"), &json!(1)));
        assert_eq!(job["spec"]["template"]["metadata"]["annotations"]["modelway.io/cores"], "upper-half");
        assert!(job["spec"]["ttlSecondsAfterFinished"].is_null() && job["spec"]["activeDeadlineSeconds"] == 3600);
        let env: Vec<(&str, &str)> = read::items(&pod["containers"][0], "/env")
            .map(|entry| (read::name_of(entry), read::text(entry, "/value")))
            .collect();
        assert_eq!(
            env,
            [
                ("RequestTemplate", "{\"a\": \"$$(x)\"}"),
                ("ServiceName", "t-service:8500"),
                ("TrialName", "t"),
                ("Namespace", "n"),
                ("DBNamespace", "morphling-system"),
                ("DBPort", "6799"),
                ("BATCH_SIZE", "8"),
                ("CPU", "2"),
                ("MODEL", "m"),
            ]
        );
    }

    #[test]
    fn our_client_goes_to_the_pod_itself_and_stays_apart_from_it() {
        let spec: TrialSpec = serde_json::from_value(json!({"servicePodTemplate": {"template": {"spec": {"containers": [{"ports": [{"containerPort": 8080}]}]}}}})).unwrap();
        let load = LoadPlan {
            arguments: vec!["--data=$(HOME)".to_owned()],
            path: "/x".to_owned(),
            limit: std::time::Duration::from_secs(90),
            payloads: Some("bodies".to_owned()),
            searches: true,
        };
        let job = with(|cx| built_in(cx, &trial(), &spec, &load, Address { pod: "fd00::1", service: None }));
        let pod = &job["spec"]["template"]["spec"];
        let command: Vec<&str> = read::items(pod, "/containers/0/command").filter_map(Value::as_str).collect();
        assert_eq!(command[..4], ["modelway", "load", "http://[fd00::1]:8080/x", "--data=$$(HOME)"]);
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 90);
        assert_eq!(pod["volumes"][0]["configMap"]["name"], "bodies");
        let term = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
        assert_eq!(term["labelSelector"]["matchLabels"]["deployment"], "t-deployment");
        assert_eq!(job["spec"]["template"]["metadata"]["annotations"]["modelway.io/cores"], "last");
    }
}
