//! The report of an experiment that ended, as a `ConfigMap`: the whole record, and a page for people where it fits.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use modelway_api::{labels, names};
use modelway_plan::{
    Kind, json as read,
    manifest::manifest,
    profiling::{attempts::Tested, experiment::Findings, metrics, space, template},
};
use modelway_tune::history::Outcome;
use modelway_tuner::record::{Apply, Entry, Machine, Record, Service, Setting, VERSION};
use serde_json::{Map, Value, json};

/// Kubernetes takes 1 MiB of data; the rest is for metadata and for what wraps it.
const DATA_MAX: usize = 1_000_000;
const RECORD_KEY: &str = "record.json";

/// The `ConfigMap`, owned by its experiment.
pub fn config_map(findings: &Findings) -> Value {
    let experiment = &findings.experiment;
    let mut own = Map::new();
    own.insert(labels::EXPERIMENT.to_owned(), names::label_value(read::name(experiment)).into());
    let mut object = manifest(Kind::ConfigMap, &names::experiment_report(read::name(experiment)), experiment, own);
    let record = record(findings);
    let mut data = Map::new();
    let text = bounded(record.clone(), DATA_MAX);
    let left = DATA_MAX.saturating_sub(text.len());
    data.insert(RECORD_KEY.to_owned(), text.into());
    data.extend(pages(&record, left));
    object["data"] = data.into();
    object
}

/// Pages for people, each where it still fits.
fn pages(record: &Record, mut left: usize) -> Vec<(String, Value)> {
    let report = modelway_tuner::report::report(record);
    let mut pages = Vec::new();
    for (name, text) in [("report.html", report.html()), ("report.md", report.markdown())] {
        if text.len() <= left {
            left -= text.len();
            pages.push((name.to_owned(), text.into()));
        }
    }
    pages
}

/// The record as text, without what makes it too long.
fn bounded(mut record: Record, max: usize) -> String {
    let text = |record: &Record| serde_json::to_string(record).expect("a record is plain data");
    let mut written = text(&record);
    if written.len() > max {
        record.trials.iter_mut().for_each(|entry| entry.report = Value::Null);
        record.left_out.push("the clients' own reports".to_owned());
        written = text(&record);
    }
    if written.len() > max {
        record.trials.iter_mut().for_each(|entry| entry.message.truncate(0));
        record.left_out.push("what happened in each trial".to_owned());
        record.question.spec.sources.clear();
        record.left_out.push("earlier experiments".to_owned());
        written = text(&record);
    }
    if written.len() > max {
        let note = json!({"name": record.name, "leftOut": "everything: it is longer than a ConfigMap may be"});
        return note.to_string();
    }
    written
}

fn record(findings: &Findings) -> Record {
    let seconds = |time: Timestamp| u64::try_from(time.as_second()).unwrap_or_default();
    Record {
        version: VERSION,
        method: modelway_tune::METHOD,
        name: read::name(&findings.experiment).to_owned(),
        modelway: env!("CARGO_PKG_VERSION").to_owned(),
        question: findings.question.clone(),
        settings: space::parameters(&findings.spec)
            .map(|(category, parameter)| setting(category, &parameter.name))
            .collect(),
        units: units(findings),
        service: service(findings),
        load: serde_json::to_value(&findings.spec.load).unwrap_or_default(),
        machine: machine(findings),
        started: seconds(findings.started),
        ended: Some(seconds(findings.ended)),
        elapsed: findings.elapsed,
        trials: findings.trials.iter().map(|tested| entry(findings, tested)).collect(),
        end: Some(findings.end.clone()),
        apply: findings.change.as_ref().map(|change| Apply {
            change: change.patch.clone(),
            language: "json".to_owned(),
            commands: vec![change.command.clone()],
            undo: change.undo.clone().into_iter().collect(),
        }),
        left_out: Vec::new(),
    }
}

fn setting(category: modelway_api::trial::Category, name: &str) -> Setting {
    use modelway_api::trial::Category;
    let (category, target) = match category {
        Category::Resource => ("resource", name.to_owned()),
        Category::Env => ("env", template::variable(name)),
        Category::Args => ("args", name.to_owned()),
        Category::NodeSelector => ("nodeSelector", name.to_owned()),
    };
    Setting { name: name.to_owned(), category: category.to_owned(), target }
}

fn units(findings: &Findings) -> BTreeMap<String, String> {
    let mut units = BTreeMap::new();
    for tested in &findings.trials {
        let Outcome::Measured(values) = &tested.attempt.outcome else { continue };
        for name in values.keys() {
            let own = metrics::own_name(name, None);
            units.extend(metrics::unit(&own).map(|unit| (name.clone(), unit.to_owned())));
        }
    }
    let cost = findings.spec.objective.as_ref().and_then(|objective| objective.cost.as_ref());
    units.extend(cost.and_then(|cost| cost.unit.clone()).map(|unit| ("cost".to_owned(), unit)));
    units
}

fn service(findings: &Findings) -> Service {
    let images = read::items(&findings.pods, "/spec/containers");
    let reference = findings.spec.inference_ref.as_ref();
    Service::Pods {
        namespace: read::text(&findings.experiment, "/metadata/namespace").to_owned(),
        inference: reference.map(|reference| (reference.name.clone(), reference.predictor.clone().unwrap_or_default())),
        images: images
            .map(|container| (read::name_of(container).to_owned(), read::text(container, "/image").to_owned()))
            .collect(),
    }
}

fn machine(findings: &Findings) -> Machine {
    let nodes: BTreeSet<String> = findings.trials.iter().filter_map(|tested| tested.status.node.clone()).collect();
    let notes = findings.left_out.iter().cloned().collect();
    Machine { nodes: nodes.into_iter().collect(), notes, ..Machine::default() }
}

fn entry(findings: &Findings, tested: &Tested) -> Entry {
    let space = &findings.question.spec.space;
    let settings = space.settings(tested.attempt.candidate).into_iter();
    let settings = settings.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let started = tested.started().and_then(|time| u64::try_from(time.as_second()).ok()).unwrap_or_default();
    let mut entry = Entry::begin(tested.attempt.clone(), settings, tested.choice.why, started);
    entry.name.clone_from(&tested.name);
    entry.beside.clone_from(&tested.choice.beside);
    if let Some(known) = &tested.status.outcome {
        entry.message = if known.message.is_empty() { known.reason.clone() } else { known.message.clone() };
        if known.reason == "GeneratorBound" {
            entry.generator_bound = vec![known.message.clone()];
        }
    }
    entry.limits = tested.status.limits.iter().map(|limits| ("pod".to_owned(), limits.clone())).collect();
    entry
}
