//! `cargo xtask bench tune --grid`: a real service measured at every candidate, then searched; how near do searches come?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::shell::{cargo, root, run};

/// The experiment: the same file that the documentation tells of.
const FILE: &str = "examples/tune/tune.yaml";
/// Where `--store` keeps the grid; a test searches it.
const STORED: &str = "tests/data/tune/onnx-grid.csv";
/// A search is good when what it recommends is this near to the best.
const NEAR: f64 = 0.05;

/// One candidate of the grid: its settings, and its rate in each pass; none where it failed or missed a constraint.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    settings: String,
    rates: Vec<Option<f64>>,
}

impl Row {
    /// Geometric mean over the passes; none unless it met everything in each.
    fn rate(&self) -> Option<f64> {
        let logarithms: Option<Vec<f64>> = self.rates.iter().map(|rate| rate.map(f64::ln)).collect();
        let logarithms = logarithms.filter(|logarithms| !logarithms.is_empty())?;
        let count = u32::try_from(logarithms.len()).ok()?;
        Some((logarithms.iter().sum::<f64>() / f64::from(count)).exp())
    }
}

/// What one search found.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    recommended: String,
    /// Candidates that it tried.
    tried: usize,
}

/// Measures everything `passes` times with `searches` searches in between, and prints one JSON document.
pub fn grid(passes: u32, searches: u32, store: bool) -> anyhow::Result<()> {
    ensure!(passes > 0, "a grid takes at least one pass");
    run("build", &mut cargo(&["build", "--release", "--quiet", "--package", "modelway"]))?;
    let binary = root().join("target/release/modelway");
    let folder = root().join("target/bench/grid");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)?;
    let model = folder.join("model");
    run("training", Command::new(&binary).args(["example", "digits", "--variant", "wide", "--output"]).arg(&model))?;
    let file = std::fs::read_to_string(root().join(FILE)).with_context(|| format!("cannot read {FILE}"))?;

    let (mut records, mut found) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        // Searches and passes take turns: a machine that gets slower does so for both.
        let share = searches * pass / passes..searches * (pass + 1) / passes;
        records.push(experiment(&binary, &folder, &format!("pass-{pass}"), &whole(&file)?)?);
        println!(
            "pass {} of {passes}: {} candidates",
            pass + 1,
            records.last().map_or(0, |record| trials(record).len())
        );
        for seed in share {
            let record = experiment(&binary, &folder, &format!("search-{seed}"), &format!("{file}\nseed: {seed}\n"))?;
            let one = search(&record)?;
            println!("search {seed}: {} candidates tried, recommends {}", one.tried, one.recommended);
            found.push(one);
        }
    }
    let rows = rows(&records)?;
    let baseline = settings(&records[0]["trials"][0]);
    if store {
        std::fs::write(root().join(STORED), csv(&rows)).with_context(|| format!("cannot write {STORED}"))?;
    }
    println!("{:#}", judge(&rows, &baseline, &found)?);
    Ok(())
}

/// The file as one that measures every candidate once.
fn whole(file: &str) -> anyhow::Result<String> {
    let kept = file.lines().filter(|line| !line.starts_with("stop:") && !line.starts_with("confirm:"));
    let kept: Vec<&str> = kept.collect();
    ensure!(kept.len() + 2 == file.lines().count(), "{FILE} has not one line for `stop` and one for `confirm`");
    let rest = "algorithm: grid\nstop: {maxTrials: 10000, maxFailedTrials: 10000, expectedImprovement: 0}\nconfirm: {top: 0}\n";
    Ok(format!("{}\n{rest}", kept.join("\n")))
}

/// Runs `modelway tune run`; answers the record.
fn experiment(binary: &Path, folder: &Path, name: &str, file: &str) -> anyhow::Result<Value> {
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, file)?;
    let results: PathBuf = folder.join(name);
    let log = std::fs::File::create(folder.join(format!("{name}.log")))?;
    let mut command = Command::new(binary);
    command.args(["tune", "run"]).arg(&path).arg("--dir").arg(&results);
    command.stdout(log.try_clone()?).stderr(log);
    run(name, &mut command)?;
    let record = std::fs::read(results.join("record.json")).with_context(|| format!("{name} left no record"))?;
    serde_json::from_slice(&record).with_context(|| format!("the record of {name} is no JSON"))
}

fn trials(record: &Value) -> Vec<&Value> {
    record["trials"].as_array().into_iter().flatten().collect()
}

/// Settings in one line, each as `name=value`, by name.
fn settings(trial: &Value) -> String {
    let pairs = trial["settings"].as_object().into_iter().flatten();
    let pairs = pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The rate of a trial that met every constraint.
fn rate(record: &Value, trial: &Value) -> Option<f64> {
    let metrics = &trial["outcome"]["measured"];
    let constraints = record["question"]["spec"]["constraints"].as_array()?;
    let met = constraints.iter().all(|constraint| {
        let found = constraint["metric"].as_str().and_then(|metric| metrics[metric]["value"].as_f64());
        let most = constraint["bound"]["atMost"].as_f64();
        found.zip(most).is_some_and(|(found, most)| found <= most)
    });
    metrics["rate"]["value"].as_f64().filter(|_| met)
}

/// The grid of several passes.
fn rows(records: &[Value]) -> anyhow::Result<Vec<Row>> {
    let mut rates: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for record in records {
        for trial in trials(record) {
            rates.entry(settings(trial)).or_default().push(rate(record, trial));
        }
    }
    if let Some((settings, found)) = rates.iter().find(|(_, found)| found.len() != records.len()) {
        bail!("{settings} was measured {} times in {} passes", found.len(), records.len());
    }
    Ok(rates.into_iter().map(|(settings, rates)| Row { settings, rates }).collect())
}

fn search(record: &Value) -> anyhow::Result<Found> {
    let recommended = record["end"]["verdict"]["recommended"]["candidate"].as_u64().context("nothing recommended")?;
    let of = |trial: &Value| trial["candidate"].as_u64();
    let trial = trials(record).into_iter().find(|trial| of(trial) == Some(recommended));
    let tried: std::collections::BTreeSet<Option<u64>> = trials(record).into_iter().map(of).collect();
    Ok(Found { recommended: settings(trial.context("what is recommended was not tried")?), tried: tried.len() })
}

fn csv(rows: &[Row]) -> String {
    let passes = rows.first().map_or(0, |row| row.rates.len());
    let names = rows.first().map(|row| side(row, 0)).unwrap_or_default();
    let head = names.into_iter().chain((1..=passes).map(|pass| format!("rate{pass}")));
    let mut lines = vec![head.collect::<Vec<_>>().join(",")];
    lines.extend(rows.iter().map(|row| {
        let rates = row.rates.iter().map(|rate| rate.map(|rate| format!("{rate:.1}")).unwrap_or_default());
        side(row, 1).into_iter().chain(rates).collect::<Vec<_>>().join(",")
    }));
    lines.join("\n") + "\n"
}

/// The names (0) or the values (1) of a row's settings.
fn side(row: &Row, index: usize) -> Vec<String> {
    row.settings.split(' ').map(|pair| pair.split('=').nth(index).unwrap_or_default().to_owned()).collect()
}

/// How near searches came to the best of the grid. A difference that the grid's own noise makes is none.
fn judge(rows: &[Row], baseline: &str, found: &[Found]) -> anyhow::Result<Value> {
    let rate_of = |settings: &str| rows.iter().find(|row| row.settings == settings).and_then(Row::rate);
    let ranked = rows.iter().filter_map(|row| Some((row, row.rate()?)));
    let (best, best_rate) = ranked.max_by(|left, right| left.1.total_cmp(&right.1)).context("no candidate works")?;
    let noise = noise(rows);
    let searches: Vec<Value> = found
        .iter()
        .map(|one| {
            let short = rate_of(&one.recommended).map(|rate| 1.0 - rate / best_rate);
            let share = ratio(one.tried, rows.len());
            // Two means of the passes are compared: twice the deviation of their difference.
            let allowed = NEAR + 2.0 * noise * ratio(2, best.rates.len()).sqrt();
            json!({
                "recommended": one.recommended, "tried": one.tried, "share": share, "shortOfBest": short,
                "near": short.is_some_and(|short| short <= NEAR),
                "nearBeyondNoise": short.is_some_and(|short| short <= allowed),
            })
        })
        .collect();
    let count = |name: &str| searches.iter().filter(|one| one[name] == true).count();
    Ok(json!({
        "candidates": rows.len(),
        "working": rows.iter().filter(|row| row.rate().is_some()).count(),
        "passes": best.rates.len(),
        "noise": noise,
        "best": {"settings": best.settings, "rate": best_rate},
        "baseline": {"settings": baseline, "rate": rate_of(baseline)},
        "bestOverBaseline": rate_of(baseline).map(|rate| best_rate / rate),
        "withinFivePercent": rows.iter().filter_map(Row::rate).filter(|rate| *rate >= best_rate * (1.0 - NEAR)).count(),
        "searches": {"count": found.len(), "near": count("near"), "nearBeyondNoise": count("nearBeyondNoise"), "each": searches},
    }))
}

/// Deviation of one measurement, as a share: from the differences between passes.
fn noise(rows: &[Row]) -> f64 {
    let (mut squares, mut degrees) = (0.0, 0_usize);
    for row in rows {
        let Some(mean) = row.rate() else { continue };
        squares += row.rates.iter().flatten().map(|rate| (rate / mean).ln().powi(2)).sum::<f64>();
        degrees += row.rates.len().saturating_sub(1);
    }
    if degrees == 0 { 0.0 } else { (squares / f64::from(u32::try_from(degrees).unwrap_or(u32::MAX))).sqrt() }
}

fn ratio(part: usize, whole: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(part) / number(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(settings: &str, rates: &[f64]) -> Row {
        Row { settings: settings.to_owned(), rates: rates.iter().map(|rate| Some(*rate)).collect() }
    }

    #[test]
    fn the_document_is_one_of_a_single_stop_and_confirmation() {
        let text = whole("a: 1\nstop: {maxTrials: 12}\nconfirm: {top: 2}\n").unwrap();
        assert!(text.starts_with("a: 1\nalgorithm: grid\n") && !text.contains("maxTrials: 12"), "{text}");
        assert!(whole("a: 1\nstop:\n  maxTrials: 12\n").is_err());
        let example = std::fs::read_to_string(root().join(FILE)).unwrap();
        whole(&example).unwrap();
    }

    #[test]
    fn a_search_is_near_when_the_grid_says_so_whatever_it_measured_itself() {
        let mut broken = row("a=4", &[900.0, 900.0]);
        broken.rates[1] = None;
        let rows = [row("a=1", &[100.0, 100.0]), row("a=2", &[200.0, 204.0]), row("a=3", &[195.0, 195.0]), broken];
        let found = |recommended: &str| Found { recommended: recommended.to_owned(), tried: 2 };
        let document = judge(&rows, "a=1", &[found("a=2"), found("a=3"), found("a=1"), found("a=4")]).unwrap();
        assert_eq!(document["working"], 3, "one that failed in a pass is none");
        assert_eq!(document["best"]["settings"], "a=2");
        assert_eq!(document["searches"]["near"], 2);
        let over = document["bestOverBaseline"].as_f64().unwrap();
        assert!((over - 2.02).abs() < 0.01, "{over}");
        // Two passes 2 % apart, two others equal: one degree of freedom each.
        let noise = noise(&rows);
        assert!((noise - 0.008).abs() < 0.001, "{noise}");
    }

    #[test]
    fn the_stored_grid_has_a_column_for_each_setting_and_pass() {
        let text = csv(&[row("batch=1 delay=0ms", &[100.0, 101.26])]);
        assert_eq!(text, "batch,delay,rate1,rate2\n1,0ms,100.0,101.3\n");
    }
}
