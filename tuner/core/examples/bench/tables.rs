//! The task sets on disk.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use modelway_tune::history::{Failure, Measurement, Outcome};
use modelway_tune::space::{Parameter, Scale, Space};
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, Transform};
use modelway_tune::warm::{Source, SourceTrial};

use crate::task::{Task, Truth};

/// Rows with named fields.
type Row = BTreeMap<String, String>;

fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row =
        |line: &str| names.iter().map(|name| (*name).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    Ok(lines.filter(|line| !line.is_empty()).map(row).collect())
}

fn number(row: &Row, name: &str) -> anyhow::Result<f64> {
    let text = row.get(name).with_context(|| format!("column {name} is missing"))?;
    text.parse().with_context(|| format!("{name} is {text:?}, not a number"))
}

/// Distinct texts of a column.
fn distinct<'a>(rows: &'a [Row], name: &str) -> Vec<&'a str> {
    let mut texts: Vec<&str> = rows.iter().filter_map(|row| row.get(name)).map(String::as_str).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

fn discrete(rows: &[Row], name: &str) -> anyhow::Result<Parameter> {
    let numbers: Vec<f64> = distinct(rows, name).into_iter().filter_map(|text| text.parse().ok()).collect();
    Ok(Parameter::discrete(name, &numbers)?)
}

fn hardware(rows: &[Row], properties: fn(&str) -> Vec<f64>) -> anyhow::Result<Parameter> {
    let names = distinct(rows, "gpu");
    let descriptor = names.iter().map(|name| properties(name)).collect();
    Ok(Parameter::categorical("gpu", names)?.with_scale(Scale::Descriptor(descriptor))?)
}

/// Memory bandwidth in GB/s, half-precision TFLOPS.
fn llm_pilot_hardware(gpu: &str) -> Vec<f64> {
    match gpu {
        "t4" => vec![300.0, 65.0],
        "v100" => vec![900.0, 112.0],
        "a10" => vec![600.0, 125.0],
        "a100" => vec![1555.0, 312.0],
        _ => vec![3350.0, 989.0],
    }
}

/// On-demand dollars an hour.
fn llm_pilot_price(gpu: &str, count: &str) -> f64 {
    match (gpu, count) {
        ("v100", "1") => 3.06,
        ("v100", "2") => 6.12,
        ("v100", _) => 12.24,
        ("a100", "1") => 4.096_25,
        ("a100", "2") => 8.192_5,
        ("a100", _) => 16.385,
        ("h100", "1") => 12.29,
        ("h100", "2") => 24.58,
        ("h100", _) => 49.16,
        ("a10", "1") => 2.448,
        ("a10", _) => 4.896,
        ("t4", "1") => 2.176,
        ("t4", "2") => 2.754_7,
        _ => 3.912,
    }
}

/// The measured metrics of an LLM-Pilot row.
fn llm_pilot_metrics(row: &Row) -> anyhow::Result<BTreeMap<String, f64>> {
    let requests = number(row, "requests")?.max(1.0);
    let metrics = [
        ("tokens", number(row, "out_tok_s")? * 3600.0),
        ("ttft", number(row, "ttft_p95")?.max(1.0)),
        ("itl", number(row, "itl_p95")?.max(1.0)),
        ("errors", number(row, "errors")? / requests),
    ];
    Ok(metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Tasks of `llm-pilot.csv`, each with what the file's other models measured.
pub fn llm_pilot(path: &Path) -> anyhow::Result<Vec<(Task, Vec<Source>)>> {
    let rows = read(path)?;
    let parameters = vec![
        hardware(&rows, llm_pilot_hardware)?,
        discrete(&rows, "n_gpus")?.with_scale(Scale::Log2)?.as_resource(),
        discrete(&rows, "users")?.with_scale(Scale::Log2)?,
    ];
    let models = distinct(&rows, "model");
    let mut tasks = Vec::new();
    for model in &models {
        let own: Vec<&Row> = rows.iter().filter(|row| row["model"] == *model).collect();
        if own.len() < 50 {
            continue;
        }
        let others = models.iter().filter(|other| *other != model);
        let sources = others.map(|other| llm_pilot_source(&rows, other)).collect::<anyhow::Result<Vec<_>>>()?;
        let task = llm_pilot_task(model, parameters.clone(), &own)?;
        if task.optimum().is_some() {
            tasks.push((task, sources));
        }
    }
    Ok(tasks)
}

fn llm_pilot_settings(row: &Row) -> Vec<String> {
    ["gpu", "n_gpus", "users"].iter().map(|name| row[*name].clone()).collect()
}

fn llm_pilot_source(rows: &[Row], model: &str) -> anyhow::Result<Source> {
    let own = rows.iter().filter(|row| row["model"] == model);
    let trial = |row: &Row| {
        let metrics = llm_pilot_metrics(row)?;
        let measure = |(name, value)| (name, Measurement { value, variance: 0.0 });
        let outcome = Outcome::Measured(metrics.into_iter().map(measure).collect());
        anyhow::Ok(SourceTrial { settings: llm_pilot_settings(row), outcome })
    };
    Ok(Source { name: model.to_owned(), trials: own.map(trial).collect::<anyhow::Result<_>>()? })
}

fn llm_pilot_task(model: &str, parameters: Vec<Parameter>, rows: &[&Row]) -> anyhow::Result<Task> {
    let settings: Vec<Vec<String>> = rows.iter().map(|row| llm_pilot_settings(row)).collect();
    let space = Space::table(parameters, &settings)?;
    let constraint = |metric: &str, limit, transform| Constraint {
        metric: metric.to_owned(),
        bound: Bound::AtMost(limit),
        transform,
    };
    let spec = Spec {
        space,
        objective: Objective::Metric {
            metric: "tokens".to_owned(),
            goal: Goal::Maximize,
            transform: Transform::LOG,
            per_cost: true,
        },
        constraints: vec![
            constraint("ttft", 1000.0, Transform::LOG),
            constraint("itl", 60.0, Transform::LOG),
            constraint("errors", 0.01, Transform::Logit { floor: 0.001 }),
        ],
        cost: Some(rows.iter().map(|row| llm_pilot_price(&row["gpu"], &row["n_gpus"])).collect()),
        baseline: None,
        sources: Vec::new(),
    };
    let truth = rows.iter().map(|row| llm_pilot_metrics(row).map(Truth::Runs)).collect::<anyhow::Result<_>>()?;
    Ok(Task { name: model.to_owned(), spec, truth })
}

/// Memory bandwidth in TB/s.
fn lab_hardware(gpu: &str) -> Vec<f64> {
    match gpu {
        "h100" => vec![3.35, 80.0],
        "h200" => vec![4.8, 141.0],
        "b200" => vec![8.0, 180.0],
        _ => vec![1.79, 96.0],
    }
}

fn lab_price(gpu: &str) -> f64 {
    match gpu {
        "h100" => 2.5,
        "h200" => 3.2,
        "b200" => 5.0,
        _ => 1.4,
    }
}

/// Each table of a folder is a task: capacity under the latency objectives, per dollar.
pub fn inference_lab(folder: &Path) -> anyhow::Result<Vec<Task>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    paths.sort();
    paths.iter().map(|path| lab_task(path)).collect()
}

fn lab_task(path: &Path) -> anyhow::Result<Task> {
    const NAMES: [&str; 6] = ["gpu", "tp", "max_num_seqs", "max_num_batched_tokens", "gpu_mem_util", "chunked"];
    let rows = read(path)?;
    let parameters = vec![
        hardware(&rows, lab_hardware)?,
        discrete(&rows, "tp")?.with_scale(Scale::Log2)?.as_resource(),
        discrete(&rows, "max_num_seqs")?.with_scale(Scale::Log2)?,
        discrete(&rows, "max_num_batched_tokens")?.with_scale(Scale::Log2)?,
        discrete(&rows, "gpu_mem_util")?,
        Parameter::categorical("chunked", distinct(&rows, "chunked"))?,
    ];
    let settings: Vec<Vec<String>> =
        rows.iter().map(|row| NAMES.iter().map(|name| row[*name].clone()).collect()).collect();
    let cost = rows.iter().map(|row| Ok(lab_price(&row["gpu"]) * number(row, "tp")?)).collect::<anyhow::Result<_>>()?;
    let truth = rows.iter().map(lab_truth).collect::<anyhow::Result<_>>()?;
    let spec = Spec {
        space: Space::table(parameters, &settings)?,
        objective: Objective::Metric {
            metric: "rps".to_owned(),
            goal: Goal::Maximize,
            transform: Transform::LOG,
            per_cost: true,
        },
        constraints: Vec::new(),
        cost: Some(cost),
        baseline: None,
        sources: Vec::new(),
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Task { name, spec, truth })
}

fn lab_truth(row: &Row) -> anyhow::Result<Truth> {
    let rate = number(row, "max_rps")?;
    Ok(if rate < 0.0 {
        Truth::Fails(Failure::OutOfMemory)
    } else if rate == 0.0 {
        Truth::Fails(Failure::ObjectiveUnmet)
    } else {
        Truth::Runs([("rps".to_owned(), rate)].into())
    })
}
