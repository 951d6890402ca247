//! Whether this node takes a pod: what the one node of a platform can be asked for, in the words of Kubernetes' scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::downward::milli;

const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Resources that are counted by a machine's size; others, such as devices, must be there at all.
const SIZED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Whether the pod waits for this node: for nobody else, for no gate, and not for its end.
pub(crate) fn is_waiting(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let assigned = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    let gated = spec.scheduling_gates.iter().flatten().next().is_some();
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == DEFAULT_SCHEDULER);
    ours && !assigned && !gated && pod.metadata.deletion_timestamp.is_none()
}

/// Why the node cannot take the pod, as a message of its `PodScheduled` condition; none when it can.
pub(crate) fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let reasons = reasons(spec, node);
    if reasons.is_empty() {
        return None;
    }
    let counted: Vec<String> = reasons.iter().map(|reason| format!("1 {reason}")).collect();
    Some(format!("0/1 nodes are available: {}.", counted.join(", ")))
}

fn reasons(spec: &PodSpec, node: &Node) -> Vec<String> {
    let state = node.spec.as_ref();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    if state.and_then(|state| state.unschedulable) == Some(true) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    let taints = state.and_then(|state| state.taints.as_deref()).unwrap_or_default();
    if taints.iter().any(|taint| keeps_away(taint, tolerations)) {
        return vec!["node(s) had untolerated taint(s)".to_owned()];
    }
    if !is_selected(spec, node) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    let empty = BTreeMap::new();
    let offered = node.status.as_ref().and_then(|status| status.allocatable.as_ref()).unwrap_or(&empty);
    asked(spec)
        .into_iter()
        .filter(|(name, asked)| !fits(name, *asked, offered))
        .map(|(name, _)| format!("Insufficient {name}"))
        .collect()
}

fn keeps_away(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let hard = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    hard && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_open = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let effect = is_open(&toleration.effect) || toleration.effect.as_deref() == Some(&taint.effect);
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = (exists && is_open(&toleration.key)) || toleration.key.as_deref() == Some(&taint.key);
    let same = |value: &Option<String>| value.clone().unwrap_or_default();
    effect && key && (exists || same(&toleration.value) == same(&taint.value))
}

fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let plain = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    plain && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| holds(term, labels, name)))
}

/// A term without requirements selects nothing.
fn holds(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let named = |field: &NodeSelectorRequirement| (field.key == "metadata.name").then_some(name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| matches(one, labels.get(&one.key).map(String::as_str)))
        && fields.iter().all(|one| matches(one, named(one)))
}

fn matches(requirement: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || Some((number(found?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared().is_some_and(|(found, wanted)| found > wanted),
        "Lt" => compared().is_some_and(|(found, wanted)| found < wanted),
        _ => false,
    }
}

/// What the pod asks for: the sum of its containers, or the largest of those that run before them.
fn asked(spec: &PodSpec) -> BTreeMap<String, i128> {
    let requests = |container: &Container| -> BTreeMap<String, i128> {
        let resources = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        resources
            .into_iter()
            .flatten()
            .map(|(name, quantity)| (name.clone(), milli(&quantity.0).unwrap_or(0)))
            .collect()
    };
    let mut total: BTreeMap<String, i128> = BTreeMap::new();
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let first = spec.init_containers.as_deref().unwrap_or_default();
    for container in spec.containers.iter().chain(first.iter().filter(is_sidecar)) {
        for (name, quantity) in requests(container) {
            *total.entry(name).or_default() += quantity;
        }
    }
    for container in first.iter().filter(|container| !is_sidecar(container)) {
        for (name, quantity) in requests(container) {
            let most = total.entry(name).or_default();
            *most = (*most).max(quantity);
        }
    }
    total
}

fn fits(name: &str, asked: i128, offered: &BTreeMap<String, Quantity>) -> bool {
    match offered.get(name) {
        Some(quantity) => asked <= milli(&quantity.0).unwrap_or(0),
        // What no node has a size of is not asked for either, but a device is.
        None => asked <= 0 || SIZED.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn node(spec: &Value) -> Node {
        from_value(json!({
            "metadata": {"name": "local", "labels": {"kubernetes.io/os": "linux", "zone": "5"}}, "spec": spec,
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "250"}},
        }))
        .unwrap()
    }

    fn found(pod: &Value, spec: &Value) -> Option<String> {
        let mut whole = json!({"containers": [{"name": "c"}]});
        for (name, value) in pod.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        obstacle(&from_value(json!({"spec": whole})).unwrap(), &node(spec))
    }

    #[test]
    fn a_plain_pod_is_taken() {
        assert_eq!(found(&json!({}), &json!({})), None);
        let small = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]});
        assert_eq!(found(&small, &json!({})), None);
    }

    #[test]
    fn too_large_requests_and_missing_devices_are_insufficient() {
        let one = |requests: Value| {
            json!({"containers": [
            {"name": "a", "resources": {"requests": requests}}, {"name": "b", "resources": {"requests": {"cpu": "3"}}}]})
        };
        let message = "0/1 nodes are available: 1 Insufficient cpu.";
        assert_eq!(found(&one(json!({"cpu": "2"})), &json!({})).as_deref(), Some(message));
        let message = "0/1 nodes are available: 1 Insufficient memory, 1 Insufficient nvidia.com/gpu.";
        assert_eq!(found(&one(json!({"memory": "9Gi", "nvidia.com/gpu": "1"})), &json!({})).as_deref(), Some(message));
        assert_eq!(found(&one(json!({"ephemeral-storage": "900Gi"})), &json!({})), None);
    }

    #[test]
    fn selectors_and_affinities_must_match() {
        let message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        assert_eq!(found(&json!({"nodeSelector": {"disk": "ssd"}}), &json!({})).as_deref(), Some(message));
        assert_eq!(found(&json!({"nodeSelector": {"zone": "5"}}), &json!({})), None);
        let affine = |operator: &str, values: &[&str]| {
            let term = json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]});
            let required = json!({"nodeSelectorTerms": [term]});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        for (operator, values, taken) in [
            ("In", vec!["5"], true),
            ("NotIn", vec!["5"], false),
            ("Exists", vec![], true),
            ("DoesNotExist", vec![], false),
            ("Gt", vec!["4"], true),
            ("Lt", vec!["4"], false),
        ] {
            assert_eq!(found(&affine(operator, &values), &json!({})).is_none(), taken, "{operator}");
        }
    }

    #[test]
    fn cordons_and_taints_keep_pods_away() {
        let message = "0/1 nodes are available: 1 node(s) were unschedulable.";
        assert_eq!(found(&json!({}), &json!({"unschedulable": true})).as_deref(), Some(message));
        let tainted = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let message = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
        assert_eq!(found(&json!({}), &tainted).as_deref(), Some(message));
        for toleration in [
            json!({"key": "k", "operator": "Exists"}),
            json!({"key": "k", "value": "v"}),
            json!({"operator": "Exists"}),
        ] {
            assert_eq!(found(&json!({"tolerations": [toleration]}), &tainted), None);
        }
        let other = json!([{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "k", "value": "w"}]);
        assert!(found(&json!({"tolerations": other}), &tainted).is_some());
        assert_eq!(found(&json!({}), &json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})), None);
    }

    #[test]
    fn pods_of_other_schedulers_and_gated_ones_are_left_alone() {
        let waits = |spec: Value| is_waiting(&from_value(json!({"spec": spec})).unwrap());
        assert!(waits(json!({"containers": [], "schedulerName": "default-scheduler"})));
        assert!(!waits(json!({"containers": [], "schedulerName": "mine"})));
        assert!(!waits(json!({"containers": [], "schedulingGates": [{"name": "g"}]})));
        assert!(!waits(json!({"containers": [], "nodeName": "local"})));
    }
}
