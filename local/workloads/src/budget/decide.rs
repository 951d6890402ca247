//! What a budget says of its pods.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use crate::pods;

const CONDITION: &str = "DisruptionAllowed";

/// Whether the budget is about the pod: an empty selector means all, an absent one none.
pub(crate) fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector.and_then(|selector| Selector::try_from(selector).ok()).is_some_and(|one| one.matches(pod.labels()))
}

/// The new status; none when it says what the old one says. `expected` = pods that there should be.
pub(super) fn decide(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    expected: i32,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let healthy = pods.iter().filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let desired = desired(budget.spec.as_ref()?, expected);
    let allowed = (healthy - desired).max(0);
    let before = budget.status.clone().unwrap_or_default();
    let status = PodDisruptionBudgetStatus {
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disruptions_allowed: allowed,
        observed_generation: budget.metadata.generation,
        conditions: Some(vec![condition(budget, &before, allowed > 0, now)]),
        disrupted_pods: before.disrupted_pods.clone(),
    };
    (status != before).then_some(status)
}

fn condition(
    budget: &PodDisruptionBudget,
    before: &PodDisruptionBudgetStatus,
    holds: bool,
    now: Timestamp,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let known = before.conditions.iter().flatten().find(|one| one.type_ == CONDITION && one.status == status);
    Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: if holds { "SufficientPods" } else { "InsufficientPods" }.to_owned(),
        message: String::new(),
        observed_generation: budget.metadata.generation,
        last_transition_time: known.map_or(Time(now), |known| known.last_transition_time.clone()),
    }
}

fn desired(spec: &PodDisruptionBudgetSpec, expected: i32) -> i32 {
    // Rounded up, as in Kubernetes.
    let amount = |value: &IntOrString| match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i32 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or_default();
            percent.saturating_mul(expected).saturating_add(99) / 100
        }
    };
    match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => amount(least),
        (None, Some(most)) => (expected - amount(most)).max(0),
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn budget(spec: &Value) -> PodDisruptionBudget {
        let mut whole = json!({"selector": {"matchLabels": {"app": "web"}}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        from_value(json!({"metadata": {"name": "web", "generation": 1}, "spec": whole})).unwrap()
    }

    fn pod(ready: bool) -> Pod {
        let ready = if ready { "True" } else { "False" };
        from_value(json!({"metadata": {"labels": {"app": "web"}}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    fn allowed(spec: &Value, ready: usize, expected: i32) -> (i32, i32) {
        let pods: Vec<Pod> = (0..3).map(|index| pod(index < ready)).collect();
        let pods: Vec<&Pod> = pods.iter().collect();
        let status = decide(&budget(spec), &pods, expected, Timestamp::UNIX_EPOCH).unwrap();
        (status.desired_healthy, status.disruptions_allowed)
    }

    #[test]
    fn what_is_healthy_beyond_what_must_be_may_be_disturbed() {
        assert_eq!(allowed(&json!({"minAvailable": 1}), 3, 3), (1, 2));
        assert_eq!(allowed(&json!({"minAvailable": "50%"}), 2, 3), (2, 0));
        assert_eq!(allowed(&json!({"maxUnavailable": 1}), 3, 3), (2, 1));
        assert_eq!(allowed(&json!({"maxUnavailable": 1}), 3, 4), (3, 0));
        assert_eq!(allowed(&json!({"minAvailable": 4}), 3, 3), (4, 0));
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        let mut budget = budget(&json!({"minAvailable": 1}));
        let pod = pod(true);
        budget.status = decide(&budget, &[&pod], 1, Timestamp::UNIX_EPOCH);
        assert_eq!(decide(&budget, &[&pod], 1, Timestamp::now()), None);
        assert!(selects(&budget, &pod));
        assert!(!selects(&PodDisruptionBudget::default(), &pod));
    }
}
