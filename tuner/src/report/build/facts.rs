//! How it was measured: what somebody needs who wants to measure it again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::when::utc;
use crate::record::{Machine, Record, Service};
use crate::report::document::Group;
use crate::report::quantity::{duration, significant};

/// Different ways in which one limit was enforced, or facts of a load plan, that are listed.
const MOST: usize = 40;

pub(super) fn provenance(record: &Record) -> Vec<Group> {
    let groups = [
        group("Experiment", experiment(record)),
        group("Service", service(&record.service)),
        group("Load", load(&record.load)),
        group("Machine", machine(&record.machine)),
        group("Limits were enforced by", limits(record)),
    ];
    groups.into_iter().filter(|group| !group.facts.is_empty()).collect()
}

fn group(title: &str, facts: Vec<(String, String)>) -> Group {
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    Group { title: title.to_owned(), facts }
}

fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn experiment(record: &Record) -> Vec<(String, String)> {
    let question = &record.question;
    let when = |seconds: Option<u64>| seconds.filter(|seconds| *seconds > 0).map(utc).unwrap_or_default();
    let algorithm = serde_json::to_value(question.algorithm).ok();
    let sources: Vec<String> = question.spec.sources.iter().map(|source| source.name.clone()).collect();
    vec![
        fact("Modelway", record.modelway.clone()),
        fact("began", when(Some(record.started))),
        fact("ended", when(record.ended)),
        fact("took", Some(record.elapsed).filter(|took| *took > 0.0).map(duration).unwrap_or_default()),
        fact("search", algorithm.as_ref().and_then(Value::as_str).unwrap_or_default()),
        fact("seed", question.seed.to_string()),
        fact("trials at a time", question.parallelism.to_string()),
        fact("trials at most", question.limits.max_trials.to_string()),
        fact("time at most", question.limits.seconds.map(duration).unwrap_or_default()),
        fact("cost at most", question.limits.money.map(|money| significant(money, 3)).unwrap_or_default()),
        fact("stops below", format!("{} % expected improvement", question.limits.expected_improvement * 100.0)),
        fact("starts from", sources.join(", ")),
        fact("left out here", record.left_out.join(", ")),
    ]
}

fn service(service: &Service) -> Vec<(String, String)> {
    match service {
        Service::Unknown => Vec::new(),
        Service::Command { command, environment, directory } => {
            // Their values may be secret, and a report is passed on.
            let variables = environment.keys().map(String::as_str);
            vec![
                fact("command", command.join(" ")),
                fact("environment", variables.collect::<Vec<_>>().join(", ")),
                fact("directory", directory.clone()),
            ]
        }
        Service::Url { url, restart } => vec![fact("address", url.clone()), fact("restart", restart.join(" "))],
        Service::Pods { namespace, inference, images } => {
            let mut facts = vec![fact("namespace", namespace.clone())];
            if let Some((inference, predictor)) = inference {
                facts.push(fact("Inference", format!("{inference}, predictor {predictor}")));
            }
            facts.extend(images.iter().map(|(container, image)| fact(&format!("image of {container}"), image.clone())));
            facts
        }
    }
}

/// Every leaf of the plan, named by its path.
fn load(plan: &Value) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    leaves(plan, String::new(), &mut facts);
    if facts.len() > MOST {
        let more = facts.len() - MOST;
        facts.truncate(MOST);
        facts.push(fact("and more", format!("{more} settings")));
    }
    facts
}

fn leaves(value: &Value, path: String, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, path, facts);
            }
        }
        Value::String(text) => facts.push((name_of(path), text.clone())),
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            facts.push((name_of(path), texts.collect::<Vec<_>>().join(", ")));
        }
        Value::Bool(_) | Value::Number(_) => facts.push((name_of(path), value.to_string())),
    }
}

fn name_of(path: String) -> String {
    if path.is_empty() { "plan".to_owned() } else { path }
}

fn machine(machine: &Machine) -> Vec<(String, String)> {
    let gibibytes = machine.memory as f64 / f64::from(1 << 30);
    let known = |known: bool, text: String| if known { text } else { String::new() };
    vec![
        fact("node", machine.nodes.join(", ")),
        fact("CPU", machine.cpu.clone()),
        fact("cores", known(machine.cores > 0, machine.cores.to_string())),
        fact("memory", known(machine.memory > 0, format!("{} GiB", significant(gibibytes, 3)))),
        fact("system", machine.system.clone()),
        fact("notes", machine.notes.join("; ")),
    ]
}

/// Each limit with the ways in which trials enforced it.
fn limits(record: &Record) -> Vec<(String, String)> {
    let mut ways: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (limit, way) in record.trials.iter().flat_map(|entry| &entry.limits) {
        ways.entry(limit).or_default().insert(way);
    }
    let each = ways.into_iter().map(|(limit, ways)| {
        let shown = ways.iter().take(MOST).copied().collect::<Vec<_>>().join(", or ");
        fact(limit, if ways.len() > MOST { format!("{shown}, and more") } else { shown })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_plan_is_a_list_of_its_leaves() {
        let plan =
            serde_json::json!({"target": "http", "rateSearch": {"precision": 0.05}, "payloads": ["a", 1], "x": null});
        let facts = load(&plan);
        let expected = [("target", "http"), ("rateSearch.precision", "0.05"), ("payloads", "a, 1")];
        assert_eq!(facts, expected.map(|(name, value)| fact(name, value)));
        assert_eq!(load(&Value::Null), []);
        assert_eq!(load(&Value::from("p95<=50ms")), [fact("plan", "p95<=50ms")]);
    }

    #[test]
    fn a_huge_plan_is_cut() {
        let plan: serde_json::Map<String, Value> = (0..1000).map(|index| (index.to_string(), index.into())).collect();
        assert_eq!(load(&Value::Object(plan)).len(), MOST + 1);
    }
}
