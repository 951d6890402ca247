//! Trials until the optimum, on tables whose optimum is known: ours against rivals.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod rival;
mod search;
mod stats;
mod synthetic;
mod tables;
mod task;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use modelway_tune::baseline::Baseline;
use modelway_tune::belief::Problem;
use modelway_tune::history::Trial;
use modelway_tune::suggest::suggest;
use modelway_tune::warm::Source;
use rival::Rival;
use search::{Method, reported, trials_until_found};
use serde_json::{Value, json};
use stats::{quantile, sign_test};
use task::Task;

/// Trials after which a search on the measured tables is given up.
const LLM_BUDGET: usize = 30;

/// The same on the 864 simulated ones.
const LAB_BUDGET: usize = 40;

/// What a user gets who sets no limit.
const USUAL_BUDGET: usize = 20;

/// Each measured row was 120 s of load.
const STRESS_SECONDS: usize = 120;

const BASELINES: [(&str, Baseline); 4] =
    [("random", Baseline::Random), ("sobol", Baseline::Sobol), ("tpe", Baseline::Tpe), ("forest", Baseline::Forest)];

struct Options {
    data: PathBuf,
    out: PathBuf,
    seeds: u64,
    rival_seeds: u64,
    python: Option<String>,
    script: String,
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options {
        data: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tune")),
        out: PathBuf::from("target/bench"),
        seeds: 15,
        rival_seeds: 5,
        python: None,
        script: concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/bench/tune_rivals.py").to_owned(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--data" => options.data = value.into(),
            "--out" => options.out = value.into(),
            "--seeds" => options.seeds = value.parse().context("--seeds")?,
            "--rival-seeds" => options.rival_seeds = value.parse().context("--rival-seeds")?,
            "--python" => options.python = Some(value),
            _ => anyhow::bail!("unknown option {name}"),
        }
    }
    Ok(options)
}

/// Counts of one method over all tasks and seeds of a set.
struct Counts {
    method: String,
    by_task: Vec<(String, Vec<usize>)>,
}

impl Counts {
    fn pooled(&self) -> Vec<usize> {
        self.by_task.iter().flat_map(|(_, counts)| counts.iter().copied()).collect()
    }
}

struct Report {
    lines: Vec<String>,
    sets: Vec<Value>,
}

impl Report {
    fn say(&mut self, line: String) {
        println!("{line}");
        self.lines.push(line);
    }

    /// One line a method; the first is ours, and the others are compared with it pair by pair.
    fn set(&mut self, name: &str, budget: usize, sizes: &[usize], all: &[Counts]) {
        self.say(format!("\n{name} (given up after {budget} trials)"));
        self.say(format!(
            "{:<14}{:>7}{:>6}{:>12}{:>12}   against ours",
            "method", "median", "p90", "stress s", "of space"
        ));
        for counts in all {
            let pooled = counts.pooled();
            let (median, p90) = (quantile(&pooled, 0.5), quantile(&pooled, 0.9));
            let seeds = pooled.len() / sizes.len().max(1);
            let (wins, losses, p) = all.first().map_or((0, 0, 1.0), |ours| paired(ours, counts));
            let shares: Vec<usize> =
                pooled.iter().enumerate().map(|(index, trials)| 1000 * trials / sizes[index / seeds.max(1)]).collect();
            let share = quantile(&shares, 0.5) as f64 / 10.0;
            let show = |trials: usize| if trials > budget { format!(">{budget}") } else { trials.to_string() };
            let compared = if wins + losses == 0 {
                String::new()
            } else {
                format!("ours better {wins}, worse {losses}, p = {p:.2e}")
            };
            let stress = median * STRESS_SECONDS;
            self.say(format!(
                "{:<14}{:>7}{:>6}{:>12}{:>11.1}%   {compared}",
                counts.method,
                show(median),
                show(p90),
                stress,
                share
            ));
            let by_task: Vec<Value> = counts
                .by_task
                .iter()
                .map(|(task, trials)| json!({"task": task, "median": quantile(trials, 0.5), "p90": quantile(trials, 0.9), "trials": trials}))
                .collect();
            self.sets.push(json!({
                "set": name, "method": counts.method, "budget": budget, "median": median, "p90": p90,
                "stressSeconds": stress, "percentOfSpace": share, "oursBetter": wins, "oursWorse": losses, "p": p, "tasks": by_task,
            }));
        }
        if let Some(ours) = all.first() {
            let each: Vec<String> = ours
                .by_task
                .iter()
                .map(|(task, trials)| format!("{task} {}/{}", quantile(trials, 0.5), quantile(trials, 0.9)))
                .collect();
            self.say(format!("ours by task: {}", each.join(", ")));
        }
    }
}

/// Pairs of the same task and seed; a rival with fewer seeds is compared on those.
fn paired(ours: &Counts, theirs: &Counts) -> (usize, usize, f64) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for ((_, ours), (_, theirs)) in ours.by_task.iter().zip(&theirs.by_task) {
        let both = ours.len().min(theirs.len());
        left.extend(&ours[..both]);
        right.extend(&theirs[..both]);
    }
    sign_test(&left, &right)
}

fn counts(
    name: &str,
    tasks: &[Task],
    method: &mut Method,
    seeds: u64,
    budget: usize,
    noise: f64,
) -> anyhow::Result<Counts> {
    let mut by_task = Vec::new();
    for task in tasks {
        let trials = (0..seeds).map(|seed| trials_until_found(task, method, seed, budget, noise));
        by_task.push((task.name.clone(), trials.collect::<anyhow::Result<_>>()?));
    }
    Ok(Counts { method: name.to_owned(), by_task })
}

/// Ours, then the rivals.
fn contest(options: &Options, tasks: &[Task], budget: usize, noise: f64) -> anyhow::Result<Vec<Counts>> {
    let mut all = vec![counts("ours", tasks, &mut Method::Ours, options.seeds, budget, noise)?];
    for (name, baseline) in BASELINES {
        all.push(counts(name, tasks, &mut Method::Baseline(baseline), options.seeds, budget, noise)?);
    }
    for name in ["optuna-tpe", "optuna-gp", "skopt"] {
        let Some(python) = &options.python else { break };
        match Rival::start(python, &options.script, name) {
            Ok(mut rival) => {
                let mut method = Method::Rival(&mut rival);
                all.push(counts(name, tasks, &mut method, options.rival_seeds, budget, noise)?);
            }
            Err(reason) => eprintln!("without {name}: {reason:#}"),
        }
    }
    Ok(all)
}

fn with_sources(task: &Task, sources: Vec<Source>) -> Task {
    let mut task = task.clone();
    task.spec.sources = sources;
    task
}

fn sizes(tasks: &[Task]) -> Vec<usize> {
    tasks.iter().map(|task| task.truth.len()).collect()
}

fn llm_pilot(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let loaded = tables::llm_pilot(&options.data.join("llm-pilot.csv"))?;
    let cold: Vec<Task> = loaded.iter().map(|(task, _)| task.clone()).collect();
    let sizes = sizes(&cold);
    report.set("LLM-Pilot, cold", LLM_BUDGET, &sizes, &contest(options, &cold, LLM_BUDGET, 0.0)?);
    let ours = |tasks: &[Task], noise| counts("ours", tasks, &mut Method::Ours, options.seeds, LLM_BUDGET, noise);
    let warm: Vec<Task> = loaded.iter().map(|(task, sources)| with_sources(task, sources.clone())).collect();
    report.set("LLM-Pilot, warm from the other models", LLM_BUDGET, &sizes, &[ours(&warm, 0.0)?]);
    let against: Vec<Task> = cold.iter().map(|task| with_sources(task, vec![task.adversary()])).collect();
    report.set("LLM-Pilot, warm from an adversary", LLM_BUDGET, &sizes, &[ours(&against, 0.0)?]);
    report.set(
        "LLM-Pilot, 10 % noise",
        LLM_BUDGET,
        &sizes,
        &contest(&Options { python: None, ..copy(options) }, &cold, LLM_BUDGET, 0.1)?,
    );
    for noise in [0.0, 0.1] {
        reports(options, report, "LLM-Pilot", &cold, LLM_BUDGET, noise);
    }
    Ok(())
}

fn copy(options: &Options) -> Options {
    Options {
        data: options.data.clone(),
        out: options.out.clone(),
        python: options.python.clone(),
        script: options.script.clone(),
        ..*options
    }
}

/// How good the recommendation is when the search stops by itself.
fn reports(options: &Options, report: &mut Report, name: &str, tasks: &[Task], budget: usize, noise: f64) {
    let mut regrets = Vec::new();
    let mut used = Vec::new();
    for task in tasks {
        for seed in 0..options.seeds {
            let (trials, candidate) = reported(task, seed, budget, noise);
            regrets.push(task.regret(candidate));
            used.push(trials);
        }
    }
    let good = regrets.iter().filter(|regret| **regret <= 0.05).count();
    let share = 100.0 * good as f64 / regrets.len() as f64;
    let (median, p90) = (quantile(&used, 0.5), quantile(&used, 0.9));
    report.say(format!(
        "{name}, {:.0} % noise, stopped by itself after {median}/{p90} trials: reported within 5 % in {share:.0} % of runs",
        noise * 100.0
    ));
    report.sets.push(json!({"set": format!("{name}, reported"), "noise": noise, "median": median, "p90": p90, "within5Percent": share}));
}

fn lab(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let tasks = tables::inference_lab(&options.data.join("inference-lab"))?;
    report.set("inference-lab, cold", LAB_BUDGET, &sizes(&tasks), &contest(options, &tasks, LAB_BUDGET, 0.0)?);
    for budget in [LAB_BUDGET, USUAL_BUDGET] {
        reports(options, report, &format!("inference-lab, at most {budget} trials"), &tasks, budget, 0.0);
    }
    let invented = synthetic::tasks(10, 11)?;
    let few = Options { seeds: options.seeds.min(3), python: None, ..copy(options) };
    report.set("invented services, cold", LAB_BUDGET, &sizes(&invented), &contest(&few, &invented, LAB_BUDGET, 0.0)?);
    Ok(())
}

/// Wall-clock of one suggestion, the median of five.
fn speed(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let task = tables::inference_lab(&options.data.join("inference-lab"))?.swap_remove(0);
    for (size, results) in [(864, 40), (10_000, 60)] {
        let (problem_spec, trials) =
            if size == 864 { (task.spec.clone(), measured(&task, results)) } else { synthetic::large(results)? };
        let problem = Problem::new(&problem_spec);
        let mut times: Vec<u128> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                suggest(&problem, &trials, 1, 1);
                begun.elapsed().as_millis()
            })
            .collect();
        times.sort_unstable();
        report.say(format!("one suggestion at {size} candidates and {results} results: {} ms", times[2]));
        report.sets.push(
            json!({"set": "speed", "candidates": size, "results": results, "milliseconds": times[2].to_string()}),
        );
    }
    Ok(())
}

fn measured(task: &Task, results: usize) -> Vec<Trial> {
    let step = task.truth.len() / results;
    (0..results)
        .map(|index| Trial { candidate: index * step, outcome: task.measure(index * step, 0.0, 0, 0) })
        .collect()
}

fn main() -> anyhow::Result<()> {
    let options = options()?;
    let mut report = Report { lines: Vec::new(), sets: Vec::new() };
    llm_pilot(&options, &mut report)?;
    lab(&options, &mut report)?;
    speed(&options, &mut report)?;
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("tune.txt"), report.lines.join("\n") + "\n")?;
    std::fs::write(
        options.out.join("tune.json"),
        serde_json::to_string_pretty(&json!({"seeds": options.seeds, "sets": report.sets}))?,
    )?;
    println!("\nwritten to {}", options.out.display());
    Ok(())
}
