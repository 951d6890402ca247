//! Evictions: deletions of pods that a disruption budget may refuse.

use std::collections::HashMap;

use serde_json::Value;

use super::delete::{DeleteOptions, delete};
use super::{Request, live};
use crate::status::{ApiError, Cause};
use crate::{Core, builtin, meta, versions};

/// Deletes the pod unless that would violate its budget. One eviction at a time: each sees what the one before did.
pub async fn evict(core: &Core, request: &Request, name: &str, options: &DeleteOptions) -> Result<(), ApiError> {
    let _one = core.evictions.lock().await;
    let pod = versions::shown(&*live(core, request, name)?, &request.kind);
    let namespace = Some(request.namespace.as_str());
    let values = |resource: &str| -> Vec<Value> {
        core.store.list(resource, namespace).objects.iter().map(|object| object.value()).collect()
    };
    let replicas = |uid: &str| core.store.by_uid(uid).and_then(|owner| owner.value()["spec"]["replicas"].as_i64());
    check(&pod, &values("poddisruptionbudgets.policy"), &values("pods"), replicas)?;
    delete(core, request, name, options).await.map(drop)
}

/// Refuses what the one budget of the pod does not allow.
fn check(
    pod: &Value,
    budgets: &[Value],
    pods: &[Value],
    replicas: impl Fn(&str) -> Option<i64>,
) -> Result<(), ApiError> {
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    if phase != "Running" || meta::is_terminating(pod) {
        return Ok(());
    }
    let budgets: Vec<&Value> = budgets.iter().filter(|budget| selects(budget, pod)).collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => *budget,
        _ => {
            return Err(ApiError::internal(
                "this pod has more than one disruption budget, which evictions do not support",
            ));
        }
    };
    let counted: Vec<&Value> = pods.iter().filter(|pod| selects(budget, pod)).collect();
    let desired = desired(&budget["spec"], expected(&counted, replicas));
    let healthy = i64::try_from(counted.iter().filter(|pod| is_healthy(pod)).count()).unwrap_or(i64::MAX);
    let is_ready = is_healthy(pod);
    let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
    let allowed = if is_ready { healthy > desired } else { always || (healthy >= desired && desired > 0) };
    if allowed { Ok(()) } else { Err(refusal(meta::name(budget), desired, healthy)) }
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    selector.is_object() && builtin::selects(selector, &pod["metadata"]["labels"])
}

fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    !meta::is_terminating(pod)
        && pod["status"]["phase"] == "Running"
        && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Pods that there should be: what their controllers ask for, and one for each without.
fn expected(pods: &[&Value], replicas: impl Fn(&str) -> Option<i64>) -> i64 {
    let mut wanted: HashMap<&str, i64> = HashMap::new();
    for pod in pods {
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["controller"] == true);
        let uid = owner.and_then(|owner| owner["uid"].as_str());
        match uid.and_then(|uid| Some((uid, replicas(uid)?))) {
            Some((uid, count)) => drop(wanted.insert(uid, count)),
            None => *wanted.entry("").or_default() += 1,
        }
    }
    wanted.values().sum()
}

fn desired(spec: &Value, expected: i64) -> i64 {
    let amount = |value: &Value| match value.as_str() {
        Some(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or_default();
            // Rounded up, as in Kubernetes.
            Some(percent.saturating_mul(expected).saturating_add(99) / 100)
        }
        None => value.as_i64(),
    };
    match (amount(&spec["minAvailable"]), amount(&spec["maxUnavailable"])) {
        (Some(least), _) => least,
        (None, Some(most)) => (expected - most).max(0),
        (None, None) => 1,
    }
}

fn refusal(budget: &str, desired: i64, healthy: i64) -> ApiError {
    let message = format!("The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently");
    let cause = Cause::new("DisruptionBudget", message, "");
    ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.")
        .with_causes(&[cause])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"metadata": {"name": name, "labels": {"app": "web"},
                "ownerReferences": [{"controller": true, "uid": "set"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}})
    }

    fn budget(spec: &Value) -> Value {
        let mut budget = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        for (name, value) in spec.as_object().into_iter().flatten() {
            budget["spec"][name] = value.clone();
        }
        budget
    }

    fn allowed(spec: &Value, pods: &[Value], index: usize) -> bool {
        check(&pods[index], &[budget(spec)], pods, |uid| (uid == "set").then_some(2)).is_ok()
    }

    #[test]
    fn a_budget_keeps_its_least_number() {
        let both = [pod("a", true), pod("b", true)];
        assert!(allowed(&json!({"minAvailable": 1}), &both, 0));
        assert!(!allowed(&json!({"minAvailable": 2}), &both, 0));
        assert!(!allowed(&json!({"minAvailable": "51%"}), &both, 0));
        assert!(allowed(&json!({"maxUnavailable": "50%"}), &both, 0));
        assert!(!allowed(&json!({"maxUnavailable": 0}), &both, 0));
    }

    #[test]
    fn a_missing_pod_counts_as_unavailable() {
        assert!(!allowed(&json!({"maxUnavailable": 1}), &[pod("a", true)], 0));
    }

    #[test]
    fn pods_that_serve_nobody_go_while_the_budget_is_kept() {
        let one_ready = [pod("a", true), pod("b", false)];
        assert!(allowed(&json!({"minAvailable": 1}), &one_ready, 1));
        assert!(!allowed(&json!({"minAvailable": 1}), &one_ready, 0));
        assert!(!allowed(&json!({"minAvailable": 2}), &one_ready, 1));
        assert!(allowed(&json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}), &one_ready, 1));
        let mut ended = pod("c", false);
        ended["status"]["phase"] = "Failed".into();
        assert!(allowed(&json!({"minAvailable": 2}), &[ended], 0));
    }
}
