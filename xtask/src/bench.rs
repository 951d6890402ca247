//! `cargo xtask bench`: figures as JSON, each against a rival or over several runs.

mod grid;
pub mod load;
pub mod tune;

use std::process::Command;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::shell::{cargo, output, root, run};

#[derive(clap::Args)]
pub struct Options {
    /// How often.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Prints one JSON document: each number of the quickstart's document as `[minimum, median, maximum]`.
pub fn quickstart(options: &Options) -> anyhow::Result<()> {
    run("build", &mut cargo(&["build", "--release", "--quiet", "--package", "modelway"]))?;
    let binary = root().join("target/release/modelway");
    let mut runs = Vec::new();
    for index in 0..options.runs {
        let folder = std::env::temp_dir().join(format!("modelway-bench-{}-{index}", std::process::id()));
        let mut command = Command::new(&binary);
        command.args(["quickstart", "--output", "json", "--data-dir"]).arg(&folder);
        let document = output(&mut command);
        std::fs::remove_dir_all(&folder).ok();
        let mut document: Value = serde_json::from_slice(&document?).context("the quickstart printed no JSON")?;
        // A curve, as long as the run took.
        if let Some(scaling) = document["scaling"].as_object_mut() {
            scaling.remove("replicas");
        }
        println!("run {}: {}", index + 1, document["seconds"]);
        runs.push(numbers(&document));
    }
    println!("{:#}", summary(&runs));
    Ok(())
}

/// Prints how the embedded API does against a real API server with etcd, and how the controller bears many objects.
pub fn control() -> anyhow::Result<()> {
    run("build", &mut cargo(&["build", "--release", "--quiet", "--package", "modelway"]))?;
    let example = |package: &str, name: &str| {
        cargo(&["run", "--release", "--quiet", "--package", package, "--example", name, "--"])
    };
    let binary = root().join("target/release/modelway");
    run("API: embedded against real", example("modelway-tests", "control").arg(&binary))?;
    run("controller with 1,000 Inferences and 5,000 pods", &mut example("modelway-controller", "scale"))
}

#[derive(clap::Args)]
pub struct ScalingOptions {
    /// Cold starts.
    #[arg(long, default_value_t = 50)]
    starts: u32,
    /// Inferences at rest.
    #[arg(long, default_value_t = 200)]
    inferences: u32,
}

/// Prints what sleeping and waking costs on the embedded platform.
pub fn scaling(options: &ScalingOptions) -> anyhow::Result<()> {
    run("build", &mut cargo(&["build", "--release", "--quiet", "--package", "modelway"]))?;
    let mut example =
        cargo(&["run", "--release", "--quiet", "--package", "modelway-tests", "--example", "scaling", "--"]);
    example.arg(root().join("target/release/modelway"));
    example.args([options.starts.to_string(), options.inferences.to_string()]);
    run("scaling", &mut example)
}

/// Paths of all numbers in a document.
fn numbers(document: &Value) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    walk("", document, &mut found);
    found
}

fn walk(path: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => {
            found.extend(number.as_f64().map(|number| (path.trim_start_matches('.').to_owned(), number)));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| walk(&format!("{path}.{name}"), value, found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| walk(&format!("{path}[{index}]"), value, found));
        }
        _ => {}
    }
}

fn summary(runs: &[Vec<(String, f64)>]) -> Value {
    let mut result = Map::new();
    for (path, _) in runs.first().into_iter().flatten() {
        let mut values: Vec<f64> =
            runs.iter().flatten().filter(|(name, _)| name == path).map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.get(values.len() / 2).copied();
        result.insert(path.clone(), json!([values.first(), middle, values.last()]));
    }
    Value::Object(result)
}
