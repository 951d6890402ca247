//! Checks of Jobs.

use modelway_schema::{FieldError, FieldErrorKind};
use serde_json::Value;

use super::{
    columns::list,
    labels::{duplicate, error, invalid, not_negative, one_of, required},
    pod_validation,
    validation::immutable,
};

pub(super) fn job(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = pod_validation::template(&spec["template"]);
    for field in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.extend(not_negative(format!("spec.{field}"), &spec[field]));
    }
    errors.extend(one_of("spec.completionMode", &spec["completionMode"], &["NonIndexed", "Indexed"]));
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        errors.push(required("spec.completions", "when completion mode is Indexed"));
    }
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy.is_null() || policy == "Always" {
        errors.push(required("spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
    }
    if spec["podFailurePolicy"].is_object() && policy != "Never" {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.push(invalid("spec.template.spec.restartPolicy", policy, why));
    }
    errors.extend(failure_policy(spec));
    errors.extend(indexed_only(spec));
    let allowed: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    errors.extend(one_of("spec.podReplacementPolicy", &spec["podReplacementPolicy"], allowed));
    errors.extend(job_update(object, old));
    errors
}

/// What counts by index asks for indexes.
fn indexed_only(spec: &Value) -> Vec<FieldError> {
    if spec["completionMode"] == "Indexed" {
        return Vec::new();
    }
    let fields = ["successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"].into_iter();
    let used = fields.filter(|field| !spec[*field].is_null());
    used.map(|field| invalid(format!("spec.{field}"), &spec[field], "requires indexed completion mode")).collect()
}

fn failure_policy(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in list(spec, "/podFailurePolicy/rules").iter().enumerate() {
        let place = format!("spec.podFailurePolicy.rules[{index}]");
        let action = format!("{place}.action");
        errors.extend(one_of(&action, &rule["action"], &["Count", "FailIndex", "FailJob", "Ignore"]));
        if rule["action"] == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            errors.push(invalid(&action, &rule["action"], "requires the backoffLimitPerIndex to be set"));
        }
        let by_code = rule["onExitCodes"].is_object();
        let by_condition = !list(rule, "/onPodConditions").is_empty();
        let why = match (by_code, by_condition) {
            (false, false) => Some("specifying one of OnExitCodes and OnPodConditions is required"),
            (true, true) => Some("specifying both OnExitCodes and OnPodConditions is not supported"),
            _ => None,
        };
        errors.extend(why.map(|why| error(&place, FieldErrorKind::Invalid, format!("Invalid value: {why}"))));
        if by_code {
            errors.extend(exit_codes(&format!("{place}.onExitCodes"), &rule["onExitCodes"], &spec["template"]["spec"]));
        }
    }
    errors
}

fn exit_codes(place: &str, rule: &Value, pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(one_of(format!("{place}.operator"), &rule["operator"], &["In", "NotIn"]));
    let mut containers = ["/containers", "/initContainers"].into_iter().flat_map(|name| list(pod, name));
    let name = &rule["containerName"];
    if name.is_string() && !containers.any(|container| container["name"] == *name) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(invalid(format!("{place}.containerName"), name, why));
    }
    let values = list(rule, "/values");
    if values.is_empty() {
        errors.push(invalid(format!("{place}.values"), &rule["values"], "at least one value is required"));
    }
    for (index, value) in values.iter().enumerate() {
        let at = format!("{place}.values[{index}]");
        if rule["operator"] == "In" && *value == 0 {
            errors.push(invalid(&at, value, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            errors.push(duplicate(at, value));
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        errors.push(invalid(format!("{place}.values"), &rule["values"], "must be ordered"));
    }
    errors
}

fn job_update(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = immutable(object, old, &["spec.completionMode", "spec.selector"]);
    if object["spec"]["completionMode"] != "Indexed" {
        errors.extend(immutable(object, old, &["spec.completions"]));
    }
    // A Job that has not run yet may still be steered elsewhere.
    let untouched = |old: &Value| old["spec"]["suspend"] == true && old["status"]["startTime"].as_str().is_none();
    if !old.is_some_and(untouched) {
        errors.extend(immutable(object, old, &["spec.template"]));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(spec: &Value) -> Vec<String> {
        let mut whole = json!({"completionMode": "NonIndexed", "completions": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}});
        for (name, value) in spec.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        let job = json!({"metadata": {"name": "train"}, "spec": whole});
        job_of(&job).into_iter().map(|error| error.path).collect()
    }

    fn job_of(object: &Value) -> Vec<FieldError> {
        job(object, None)
    }

    #[test]
    fn rules_of_failure_are_checked() {
        let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
        let place = "spec.podFailurePolicy.rules[0]";
        let codes = |values: Value| json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": values}});
        assert_eq!(paths(&rule(codes(json!([1, 42])))), [""; 0]);
        assert_eq!(paths(&rule(codes(json!([0])))), [format!("{place}.onExitCodes.values[0]")]);
        assert_eq!(paths(&rule(codes(json!([2, 1])))), [format!("{place}.onExitCodes.values")]);
        assert_eq!(paths(&rule(json!({"action": "Ignore"}))), [place]);
        let index = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}});
        assert_eq!(paths(&rule(index)), [format!("{place}.action")]);
    }

    #[test]
    fn what_counts_by_index_needs_indexes() {
        assert_eq!(paths(&json!({"successPolicy": {"rules": []}})), ["spec.successPolicy"]);
        assert_eq!(paths(&json!({"backoffLimitPerIndex": 1})), ["spec.backoffLimitPerIndex"]);
        assert_eq!(paths(&json!({"podReplacementPolicy": "Always"})), ["spec.podReplacementPolicy"]);
    }
}
