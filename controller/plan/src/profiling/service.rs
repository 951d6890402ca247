//! The service of a trial: its Deployment and its Service.

use modelway_api::{labels, names, trial::TrialSpec};
use serde_json::{Map, Value, json};

use super::{
    cores::{self, Side},
    template,
};
use crate::{
    json as read,
    manifest::manifest,
    template::{http_port, object},
    world::Kind,
};

/// Port of the Service in front of what is tested.
pub const SERVICE_PORT: i64 = 8500;
const SERVICE_PORT_NAME: &str = "profile-service";

/// Labels of everything that is made for a trial; its own go on.
pub fn labels(trial: &Value) -> Map<String, Value> {
    let name = read::name(trial);
    let mut all = trial["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    all.insert(labels::TRIAL.to_owned(), name.into());
    all.insert(labels::TRIAL_NAME.to_owned(), name.into());
    all
}

/// Labels of its pods, and no others: one that the experiment or the template has may be what a Service in front of
/// live traffic selects by.
pub fn pod_labels(trial: &Value) -> Map<String, Value> {
    let own = [labels::EXPERIMENT, labels::TRIAL, labels::TRIAL_NAME];
    let mut all = labels(trial);
    all.retain(|name, _| own.contains(&name.as_str()));
    all
}

fn selector(trial: &Value) -> Map<String, Value> {
    let name = read::name(trial);
    let mut all = Map::new();
    all.insert(labels::TRIAL.to_owned(), name.into());
    all.insert(labels::DEPLOYMENT.to_owned(), names::trial_deployment(name).into());
    all
}

/// One pod of the service, never two at once.
pub fn deployment(trial: &Value, spec: &TrialSpec, deadline: i64) -> Value {
    let (name, selector) = (read::name(trial), selector(trial));
    let mut pod_labels = pod_labels(trial);
    pod_labels.extend(selector.clone());
    pod_labels.insert(labels::APP_COMPONENT.to_owned(), labels::component::UNDER_TEST.into());
    let mut pods = template::under_test(
        spec.service_pod_template.as_ref().unwrap_or(&Value::Null),
        &spec.sampling_result,
        &pod_labels,
    );
    cores::ask(object(&mut pods), Side::Service, spec.client_template.is_some());
    let mut deployment = manifest(Kind::Deployment, &names::trial_deployment(name), trial, labels(trial));
    deployment["spec"] = json!({
        "replicas": 1,
        "revisionHistoryLimit": 0,
        "progressDeadlineSeconds": deadline,
        "strategy": { "type": "Recreate" },
        "selector": { "matchLabels": selector },
        "template": pods,
    });
    deployment
}

/// The address of the service for a client of the user's own.
pub fn service(trial: &Value, spec: &TrialSpec) -> Value {
    let mut service = manifest(Kind::Service, &names::trial_service(read::name(trial)), trial, labels(trial));
    service["spec"] = json!({
        "selector": selector(trial),
        "ports": [{
            "name": SERVICE_PORT_NAME,
            "port": SERVICE_PORT,
            "protocol": "TCP",
            "targetPort": target_port(spec),
        }],
    });
    service
}

/// Where the service listens: 8500 where it says so, else where it takes HTTP.
fn target_port(spec: &TrialSpec) -> Value {
    let pods = pods(spec);
    let ports = read::items(pods, "/spec/containers").flat_map(|container| read::items(container, "/ports"));
    if ports.into_iter().any(|port| port["containerPort"] == SERVICE_PORT) || !has_ports(pods) {
        return SERVICE_PORT.into();
    }
    http_port(pods)
}

fn has_ports(pods: &Value) -> bool {
    read::items(pods, "/spec/containers").any(|container| read::items(container, "/ports").next().is_some())
}

fn pods(spec: &TrialSpec) -> &Value {
    spec.service_pod_template.as_ref().and_then(|template| template.get("template")).unwrap_or(&Value::Null)
}

/// The number of the port where the service listens.
pub fn port_number(spec: &TrialSpec) -> i64 {
    let target = target_port(spec);
    if let Some(number) = target.as_i64() {
        return number;
    }
    let mut ports = read::items(pods(spec), "/spec/containers").flat_map(|container| read::items(container, "/ports"));
    ports.find(|port| port["name"] == target).map_or(SERVICE_PORT, |port| read::number(port, "/containerPort"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(ports: &Value) -> TrialSpec {
        let template = json!({"template": {"spec": {"containers": [{"name": "s", "ports": ports}]}}});
        TrialSpec { service_pod_template: Some(template), ..TrialSpec::default() }
    }

    #[test]
    fn the_port_is_the_declared_one() {
        for (ports, number) in [
            (json!([]), 8500),
            (json!([{"containerPort": 8080}]), 8080),
            (json!([{"name": "grpc", "containerPort": 9000}, {"name": "http", "containerPort": 8081}]), 8081),
            (json!([{"containerPort": 8080}, {"containerPort": 8500}]), 8500),
        ] {
            assert_eq!(port_number(&spec(&ports)), number, "{ports}");
        }
    }

    #[test]
    fn pods_have_no_label_that_live_traffic_may_go_by() {
        let labels = json!({"experiment": "e", "app": "live"});
        let trial = json!({"metadata": {"name": "t", "namespace": "n", "uid": "u", "labels": labels}});
        let mut spec = spec(&json!([]));
        spec.service_pod_template.as_mut().unwrap()["template"]["metadata"] = json!({"labels": {"app": "live"}});
        let deployment = deployment(&trial, &spec, 60);
        assert_eq!(deployment["metadata"]["labels"]["app"], "live");
        assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["modelway.io/cores"], "all-but-last");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert!(labels["app"].is_null(), "{labels}");
        assert_eq!(
            (&labels["experiment"], &labels["trial"], &labels["deployment"]),
            (&json!("e"), &json!("t"), &json!("t-deployment"))
        );
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], json!({"trial": "t", "deployment": "t-deployment"}));
    }
}
