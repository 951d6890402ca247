//! Laws of everything that the chart renders, whatever the values.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::helm::{MINIMAL, NAMESPACE, chart, helm, items, named, of_kind, render, variants, words};

/// Kinds of the chart without a namespace.
const CLUSTER_WIDE: [&str; 3] = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"];

#[test]
fn lint_finds_nothing() {
    let Some(helm) = helm() else { return };
    let output = Command::new(helm).args(["lint", "--strict", "--set", MINIMAL]).arg(chart()).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
}

/// The pod that an object runs, with the path to it in messages.
fn pod(object: &Value) -> Option<&Value> {
    match object["kind"].as_str()? {
        "Pod" => Some(&object["spec"]),
        "Deployment" | "StatefulSet" | "Job" => Some(&object["spec"]["template"]["spec"]),
        _ => None,
    }
}

#[test]
fn every_pod_is_restricted_and_has_bounds() {
    let Some(helm) = helm() else { return };
    for (object, pod) in variants(helm).iter().flatten().filter_map(|object| Some((object, pod(object)?))) {
        let name = named(object);
        let security = &pod["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{name}");
        assert!(security["runAsUser"].as_u64() > Some(0), "{name}");
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        assert!(pod["automountServiceAccountToken"].is_boolean(), "{name}: says whether it needs the API");
        for volume in items(&pod["volumes"]) {
            assert!(volume.get("hostPath").is_none(), "{name}");
        }
        for container in items(&pod["containers"]) {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(security["capabilities"]["drop"][0], "ALL", "{name}");
            let resources = &container["resources"];
            assert!(resources["requests"]["cpu"].is_string() && resources["requests"]["memory"].is_string(), "{name}");
            assert!(resources["limits"]["memory"].is_string(), "{name}");
            assert_eq!(container["command"][0], "modelway", "{name}");
        }
    }
}

#[test]
fn what_runs_for_long_says_whether_it_is_well() {
    let Some(helm) = helm() else { return };
    for object in variants(helm).iter().flatten() {
        if !matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet")) {
            continue;
        }
        for container in items(&object["spec"]["template"]["spec"]["containers"]) {
            let ports: Vec<&Value> = items(&container["ports"]).map(|port| &port["name"]).collect();
            for probe in ["readinessProbe", "livenessProbe"] {
                assert!(ports.contains(&&container[probe]["httpGet"]["port"]), "{} {probe}", named(object));
            }
        }
    }
}

#[test]
fn names_are_unique_short_and_in_a_namespace() {
    let Some(helm) = helm() else { return };
    for objects in variants(helm) {
        let mut seen = BTreeSet::new();
        for object in &objects {
            let namespace = object["metadata"]["namespace"].as_str();
            let is_cluster_wide = CLUSTER_WIDE.contains(&object["kind"].as_str().unwrap());
            assert_eq!(namespace.is_none(), is_cluster_wide, "{}", named(object));
            assert!(seen.insert((named(object), namespace)), "{} twice", named(object));
            assert!(object["metadata"]["name"].as_str().unwrap().len() <= 63 || is_cluster_wide, "{}", named(object));
        }
    }
}

#[test]
fn selectors_select_the_pods_they_mean() {
    let Some(helm) = helm() else { return };
    for objects in variants(helm) {
        let pods: Vec<&Value> = objects
            .iter()
            .filter(|object| matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet")))
            .map(|object| &object["spec"]["template"]["metadata"]["labels"])
            .collect();
        let selectors = objects.iter().filter_map(|object| match object["kind"].as_str()? {
            "Service" => Some((object, &object["spec"]["selector"])),
            "Deployment" | "StatefulSet" | "PodDisruptionBudget" => {
                Some((object, &object["spec"]["selector"]["matchLabels"]))
            }
            "NetworkPolicy" => Some((object, &object["spec"]["podSelector"]["matchLabels"])),
            _ => None,
        });
        for (object, selector) in selectors {
            let chosen = pods.iter().filter(|labels| {
                selector.as_object().unwrap().iter().all(|(key, value)| labels.get(key) == Some(value))
            });
            assert_eq!(chosen.count(), 1, "{}", named(object));
        }
        for monitor in of_kind(&objects, "ServiceMonitor") {
            let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
            let services = of_kind(&objects, "Service").filter(|service| {
                let labels = &service["metadata"]["labels"];
                wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
            });
            let ports: Vec<&Value> = services.flat_map(|service| items(&service["spec"]["ports"])).collect();
            assert!(ports.iter().any(|port| port["name"] == monitor["spec"]["endpoints"][0]["port"]));
        }
    }
}

#[test]
fn one_replica_has_no_budget_that_would_block_drains() {
    let Some(helm) = helm() else { return };
    let budgets = |replicas: &str| of_kind(&render(helm, &[MINIMAL, replicas]).unwrap(), "PodDisruptionBudget").count();
    assert_eq!([budgets("replicas=1"), budgets("replicas=2")], [0, 1]);
}

#[test]
fn definitions_are_those_of_the_controller_and_stay() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &[MINIMAL]).unwrap();
    let mut rendered: Vec<Value> = of_kind(&objects, "CustomResourceDefinition").cloned().collect();
    let mut expected: Vec<Value> =
        modelway_api::crds().iter().map(|definition| serde_json::to_value(definition).unwrap()).collect();
    for definitions in [&mut rendered, &mut expected] {
        definitions.sort_by_key(named);
        definitions.iter_mut().for_each(Value::sort_all_objects);
    }
    assert_eq!(rendered, expected);
    assert!(rendered.iter().all(|one| one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"));
    let without = render(helm, &[MINIMAL, "crds.enabled=false"]).unwrap();
    assert_eq!(of_kind(&without, "CustomResourceDefinition").count(), 0);
}

#[test]
fn a_release_of_its_own_registry_pulls_from_it_without_tls() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &["registry.enabled=true"]).unwrap();
    let controller = of_kind(&objects, "Deployment").next().unwrap();
    let arguments: Vec<&str> = items(&controller["spec"]["template"]["spec"]["containers"][0]["args"])
        .map(|argument| argument.as_str().unwrap())
        .collect();
    let host = format!("mw-modelway-registry.{NAMESPACE}.svc:5000");
    for expected in
        [format!("--default-registry={host}"), format!("--plain-http-registries={host}"), "--model-mount=pull".into()]
    {
        assert!(arguments.contains(&expected.as_str()), "{expected} is not in {arguments:?}");
    }
}
