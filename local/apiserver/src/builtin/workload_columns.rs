//! Columns of the kinds that make pods.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::columns::{age, cell, count, joined, labels, list, text_or};
use crate::{
    kinds::PrinterColumn,
    table::{age_cell, human_duration},
};

pub(super) fn deployment() -> Vec<PrinterColumn> {
    let mut columns = vec![
        cell("Ready", |object| {
            format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas")).into()
        }),
        count("Up-to-date", |object| number(object, "/status/updatedReplicas").into()),
        count("Available", |object| number(object, "/status/availableReplicas").into()),
        age(),
    ];
    columns.extend(template());
    columns
}

pub(super) fn replica_set() -> Vec<PrinterColumn> {
    let mut columns = vec![
        count("Desired", |object| number(object, "/spec/replicas").into()),
        count("Current", |object| number(object, "/status/replicas").into()),
        count("Ready", |object| number(object, "/status/readyReplicas").into()),
        age(),
    ];
    columns.extend(template());
    columns
}

pub(super) fn job() -> Vec<PrinterColumn> {
    let mut columns =
        vec![cell("Status", job_status), cell("Completions", completions), cell("Duration", job_duration), age()];
    columns.extend(template());
    columns
}

fn template() -> [PrinterColumn; 3] {
    [
        cell("Containers", |object| of_containers(object, "name")).wide(),
        cell("Images", |object| of_containers(object, "image")).wide(),
        cell("Selector", |object| selector(&object["spec"]["selector"])).wide(),
    ]
}

fn of_containers(object: &Value, key: &str) -> Value {
    let containers = list(object, "/spec/template/spec/containers").iter();
    joined(containers.filter_map(|container| container[key].as_str()).map(str::to_owned))
}

/// A label selector as kubectl takes it with `-l`.
fn selector(selector: &Value) -> Value {
    let expressions = list(selector, "/matchExpressions");
    if expressions.is_empty() {
        return labels(&selector["matchLabels"]);
    }
    let expression = |rule: &Value| {
        let key = text_or(rule, "/key", "");
        let values = list(rule, "/values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        match text_or(rule, "/operator", "") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    };
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    joined(pairs.chain(expressions.iter().map(expression)))
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn has_condition(object: &Value, wanted: &str) -> bool {
    list(object, "/status/conditions")
        .iter()
        .any(|condition| condition["type"] == wanted && condition["status"] == "True")
}

fn job_status(job: &Value) -> Value {
    let word = if has_condition(job, "Complete") {
        "Complete"
    } else if has_condition(job, "Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if has_condition(job, "Suspended") {
        "Suspended"
    } else if has_condition(job, "FailureTarget") {
        "FailureTarget"
    } else if has_condition(job, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    word.into()
}

fn completions(job: &Value) -> Value {
    let succeeded = number(job, "/status/succeeded");
    let wanted = match job["spec"]["completions"].as_i64() {
        Some(wanted) => wanted.to_string(),
        None if number(job, "/spec/parallelism") > 1 => format!("1 of {}", number(job, "/spec/parallelism")),
        None => "1".to_owned(),
    };
    format!("{succeeded}/{wanted}").into()
}

fn job_duration(job: &Value) -> Value {
    let start = &job["status"]["startTime"];
    let Some(started) = parsed(start) else { return "".into() };
    let failed = list(job, "/status/conditions").iter().find(|condition| condition["type"] == "Failed");
    let end = parsed(&job["status"]["completionTime"])
        .or_else(|| failed.and_then(|condition| parsed(&condition["lastTransitionTime"])));
    match end.and_then(|end| u64::try_from(end.as_second() - started.as_second()).ok()) {
        Some(seconds) => human_duration(std::time::Duration::from_secs(seconds)).into(),
        None => age_cell("", start, ""),
    }
}

fn parsed(timestamp: &Value) -> Option<Timestamp> {
    timestamp.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finished_job_shows_how_long_it_ran() {
        let job = json!({"spec": {"completions": 1}, "status": {"succeeded": 1,
            "startTime": "2030-01-01T00:00:00Z", "completionTime": "2030-01-01T00:00:42Z",
            "conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(job_status(&job), "Complete");
        assert_eq!(completions(&job), "1/1");
        assert_eq!(job_duration(&job), "42s");
    }

    #[test]
    fn a_running_job_shows_the_time_since_its_start() {
        let job = json!({"spec": {}, "status": {"startTime": "2030-01-01T00:00:00Z"}});
        assert_eq!(job_status(&job), "Running");
        assert_eq!(job_duration(&job)["age"], "2030-01-01T00:00:00Z");
    }

    #[test]
    fn selectors_read_as_on_the_command_line() {
        let given = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]}, {"key": "f", "operator": "DoesNotExist"}]});
        assert_eq!(selector(&given), "a=b,c in (d,e),!f");
    }
}
