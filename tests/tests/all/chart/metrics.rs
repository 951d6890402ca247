//! Dashboards and rules ask only for metrics that there are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::helm::{chart, helm, of_kind, variants};

/// Names that the router and the controller register, read from their sources.
fn known() -> BTreeSet<String> {
    let router = include_str!("../../../../router/src/meter.rs");
    let controller = include_str!("../../../../controller/src/metrics.rs");
    let quoted = |text: &'static str| text.split('"').skip(1).step_by(2);
    let own = quoted(router).filter(|text| text.starts_with("modelway_")).map(str::to_owned);
    let others = quoted(controller).filter(|text| text.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    own.chain(others.map(|text| format!("modelway_controller_{text}"))).collect()
}

/// Names that a query asks for.
fn asked(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_name(c)).filter(|word| word.starts_with("modelway_"))
}

#[test]
fn dashboards_and_rules_ask_for_metrics_that_there_are() {
    let known = known();
    let mut texts = vec![std::fs::read_to_string(chart().join("files/rules.yaml")).unwrap()];
    for entry in std::fs::read_dir(chart().join("files/dashboards")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        serde_json::from_str::<Value>(&text).unwrap();
        texts.push(text);
    }
    let names: BTreeSet<&str> = texts.iter().flat_map(|text| asked(text)).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let base = name.trim_end_matches("_bucket");
        assert!(known.contains(base), "{name} is not among {known:?}");
    }
}

#[test]
fn rules_reach_the_cluster_as_they_are_in_their_file() {
    let Some(helm) = helm() else { return };
    let text = std::fs::read_to_string(chart().join("files/rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let rendered = variants(helm).into_iter().flatten().find(|object| object["kind"] == "PrometheusRule").unwrap();
    assert_eq!(rendered["spec"], file);
    let all = variants(helm);
    let boards = all.iter().flat_map(|objects| of_kind(objects, "ConfigMap")).next().unwrap();
    assert_eq!(boards["data"].as_object().unwrap().len(), 2);
}
