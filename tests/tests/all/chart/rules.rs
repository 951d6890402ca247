//! The roles that the chart renders are those of the table, each given to whom it is for.

use std::collections::BTreeSet;

use modelway_api::access::{Names, Role, rules};
use serde_json::Value;

use super::helm::{MINIMAL, NAMESPACE, helm, items, named, of_kind, render, variants};

/// Group, resource, name, verb.
type Right = (String, String, String, String);

fn rights_of(role: &Value) -> BTreeSet<Right> {
    let texts = |value: &Value| items(value).map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let mut rights = BTreeSet::new();
    for rule in items(&role["rules"]) {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![String::new()],
            names => names,
        };
        for (group, resource) in texts(&rule["apiGroups"])
            .iter()
            .flat_map(|g| texts(&rule["resources"]).into_iter().map(move |r| (g.clone(), r)))
        {
            for (name, verb) in
                names.iter().flat_map(|n| texts(&rule["verbs"]).into_iter().map(move |v| (n.clone(), v)))
            {
                rights.insert((group.clone(), resource.clone(), name, verb));
            }
        }
    }
    rights
}

fn table(roles: &[Role]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| rules(*role)) {
        let name = match rule.names {
            Names::Any => "",
            Names::RouterRole => "modelway-system-mw-modelway-router",
            Names::Controller => "mw-modelway-controller",
        };
        for (resource, verb) in rule.resources.iter().flat_map(|r| rule.verbs.iter().map(move |v| (r, v))) {
            let text = |text: &str| text.to_owned();
            rights.insert((text(rule.group), text(resource), text(name), text(verb)));
        }
    }
    rights
}

fn role<'a>(objects: &'a [Value], kind: &'a str, namespace: Option<&str>, name: &str) -> &'a Value {
    let found = of_kind(objects, kind)
        .find(|role| role["metadata"]["name"] == name && role["metadata"]["namespace"].as_str() == namespace);
    found.unwrap_or_else(|| unreachable!("no {kind} {name} in {namespace:?}"))
}

const CONTROLLER: &str = "modelway-system-mw-modelway-controller";

#[test]
fn a_controller_of_all_namespaces_has_one_cluster_role() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &[MINIMAL]).unwrap();
    let rendered = rights_of(role(&objects, "ClusterRole", None, CONTROLLER));
    assert_eq!(rendered, table(&[Role::Controller, Role::AllNamespaces]));
    let election = role(&objects, "Role", Some(NAMESPACE), "mw-modelway-controller");
    assert_eq!(rights_of(election), table(&[Role::LeaderElection]));
    let router = role(&objects, "ClusterRole", None, "modelway-system-mw-modelway-router");
    assert_eq!(rights_of(router), table(&[Role::Router]));
}

#[test]
fn a_controller_of_named_namespaces_has_nothing_elsewhere() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &[MINIMAL, "watchNamespaces={team-a,team-b}"]).unwrap();
    assert_eq!(of_kind(&objects, "ClusterRoleBinding").count(), 0);
    for namespace in ["team-a", "team-b"] {
        let rendered = rights_of(role(&objects, "Role", Some(namespace), CONTROLLER));
        assert_eq!(rendered, table(&[Role::Controller, Role::NamedNamespaces]));
    }
    let spaces: BTreeSet<&str> =
        of_kind(&objects, "RoleBinding").filter_map(|binding| binding["metadata"]["namespace"].as_str()).collect();
    assert_eq!(spaces, BTreeSet::from(["team-a", "team-b", NAMESPACE]));
}

#[test]
fn the_release_hook_gets_its_own_rights_and_only_for_its_time() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &[MINIMAL]).unwrap();
    let hook = role(&objects, "ClusterRole", None, "modelway-system-mw-modelway-release");
    assert_eq!(rights_of(hook), table(&[Role::Release]));
    assert_eq!(rights_of(role(&objects, "Role", Some(NAMESPACE), "mw-modelway-release")), table(&[Role::Stop]));
    for object in objects.iter().filter(|object| named(object).ends_with("-release")) {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "pre-delete", "{}", named(object));
        assert!(annotations["helm.sh/hook-delete-policy"].as_str().unwrap().contains("hook-succeeded"));
    }
}

#[test]
fn people_get_rights_through_the_clusters_own_roles() {
    let Some(helm) = helm() else { return };
    let objects = render(helm, &[MINIMAL]).unwrap();
    for (name, part) in [("view", Role::View), ("edit", Role::Edit)] {
        let rendered = role(&objects, "ClusterRole", None, &format!("modelway-system-mw-modelway-{name}"));
        assert_eq!(rights_of(rendered), table(&[part]));
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        assert_eq!(rendered["metadata"]["labels"][label], "true");
    }
}

#[test]
fn every_binding_is_of_a_role_and_an_account_of_the_chart() {
    let Some(helm) = helm() else { return };
    for objects in variants(helm) {
        for binding in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("RoleBinding")) {
            let (kind, name) = (&binding["roleRef"]["kind"], binding["roleRef"]["name"].as_str().unwrap());
            let namespace = binding["metadata"]["namespace"].as_str().filter(|_| kind == "Role");
            role(&objects, kind.as_str().unwrap(), namespace, name);
            for subject in items(&binding["subjects"]) {
                let accounts = of_kind(&objects, "ServiceAccount");
                let mut same = accounts.filter(|account| {
                    account["metadata"]["name"] == subject["name"]
                        && account["metadata"]["namespace"] == subject["namespace"]
                });
                assert!(same.next().is_some(), "{} names {subject}", named(binding));
            }
        }
    }
}
