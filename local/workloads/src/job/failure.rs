//! What a failed pod means for its Job: `podFailurePolicy`, and disruptions that are nobody's fault.

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::pods;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Counts against `backoffLimit`.
    Count,
    /// Replaced without being counted.
    Ignore,
    /// The whole Job fails, for this reason.
    FailJob(String),
}

/// The first matching rule decides; without one, disruptions are ignored and the rest counts.
pub(crate) fn meaning(job: &Job, pod: &Pod) -> Meaning {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    for (index, rule) in policy.map(|policy| policy.rules.as_slice()).unwrap_or_default().iter().enumerate() {
        let Some(cause) = matching(rule, pod) else { continue };
        match rule.action.as_str() {
            "Ignore" => return Meaning::Ignore,
            "Count" => return Meaning::Count,
            "FailJob" => return Meaning::FailJob(format!("{cause} matching FailJob rule at index {index}")),
            // `FailIndex` needs an index, which these Jobs do not have.
            _ => {}
        }
    }
    if pods::is_disrupted(pod) { Meaning::Ignore } else { Meaning::Count }
}

fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    if let Some(codes) = &rule.on_exit_codes {
        return matching_exit_code(codes, pod);
    }
    matching_condition(rule.on_pod_conditions.as_deref().unwrap_or_default(), pod)
}

fn matching_exit_code(rule: &PodFailurePolicyOnExitCodesRequirement, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = [status.container_statuses.as_deref(), status.init_container_statuses.as_deref()];
    for container in all.into_iter().flatten().flatten() {
        if rule.container_name.as_ref().is_some_and(|name| *name != container.name) {
            continue;
        }
        let Some(code) = container.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code) else {
            continue;
        };
        let matched = match rule.operator.as_str() {
            "In" => rule.values.contains(&code),
            "NotIn" => code != 0 && !rule.values.contains(&code),
            _ => false,
        };
        if matched {
            let pod_name = pod.name_any();
            let namespace = pod.namespace().unwrap_or_default();
            return Some(format!(
                "Container {} for pod {namespace}/{pod_name} failed with exit code {code}",
                container.name
            ));
        }
    }
    None
}

fn matching_condition(patterns: &[PodFailurePolicyOnPodConditionsPattern], pod: &Pod) -> Option<String> {
    patterns.iter().find_map(|pattern| {
        let condition = pods::condition(pod, &pattern.type_)?;
        (condition.status == pattern.status).then(|| {
            let namespace = pod.namespace().unwrap_or_default();
            format!("Pod {namespace}/{} has condition {}", pod.name_any(), pattern.type_)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn job(rules: &serde_json::Value) -> Job {
        from_value(json!({"spec": {"template": {}, "podFailurePolicy": {"rules": rules}}})).unwrap()
    }

    fn pod(code: i32, condition: &str) -> Pod {
        from_value(json!({
            "metadata": {"name": "p", "namespace": "default"},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": condition, "status": "True"}],
                "containerStatuses": [{
                    "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}
                }]
            }
        }))
        .unwrap()
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1, 2]}},
        ]);
        assert_eq!(meaning(&job(&rules), &pod(42, "DisruptionTarget")), Meaning::Ignore);
        assert!(matches!(meaning(&job(&rules), &pod(42, "Other")), Meaning::FailJob(m) if m.contains("exit code 42")));
        assert_eq!(meaning(&job(&rules), &pod(1, "Other")), Meaning::Count);
        assert_eq!(meaning(&job(&rules), &pod(3, "Other")), Meaning::Ignore);
    }

    #[test]
    fn disruptions_are_not_counted_even_without_a_policy() {
        let rules = json!([]);
        assert_eq!(meaning(&job(&rules), &pod(137, "DisruptionTarget")), Meaning::Ignore);
        assert_eq!(meaning(&job(&rules), &pod(137, "Ready")), Meaning::Count);
    }
}
