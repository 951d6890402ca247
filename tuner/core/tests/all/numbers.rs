//! A short, deterministic part of the benchmark: the method has broken when this fails.

use std::path::Path;

use modelway_tune::baseline::{Baseline, next};
use modelway_tune::belief::Problem;
use modelway_tune::history::Trial;
use modelway_tune::incumbent::incumbent;
use modelway_tune::recommend::recommend;
use modelway_tune::spec::Spec;
use modelway_tune::stop::{Limits, Used, stop};
use modelway_tune::suggest::suggest;

use crate::tables;
use crate::task::Task;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tune");

fn trials_until_found(task: &Task, seed: u64, budget: usize, baseline: Option<Baseline>) -> usize {
    let spec = with_baseline(task, seed);
    let problem = Problem::new(&spec);
    let mut trials: Vec<Trial> = Vec::new();
    for index in 0..budget {
        let candidate = match baseline {
            Some(baseline) => next(baseline, &problem, &trials, seed),
            None => suggest(&problem, &trials, seed, 1).first().map(|proposal| proposal.candidate),
        };
        let Some(candidate) = candidate else { break };
        trials.push(Trial { candidate, outcome: task.measure(candidate, 0.0, seed, index) });
        if task.found(incumbent(&problem, &problem.believe(&trials), &trials)) {
            return index + 1;
        }
    }
    budget + 1
}

fn median(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn finds_the_best_of_measured_services_in_a_few_trials() {
    let tasks = tables::llm_pilot(&Path::new(DATA).join("llm-pilot.csv")).unwrap();
    let hard = tasks.iter().filter(|(task, _)| task.name != "llama-13b");
    let counts: Vec<usize> =
        hard.flat_map(|(task, _)| (0..5).map(|seed| trials_until_found(task, seed, 25, None))).collect();
    assert!(median(counts.clone()) <= 10, "{counts:?}");
}

#[test]
fn earlier_experiments_save_trials() {
    let tasks = tables::llm_pilot(&Path::new(DATA).join("llm-pilot.csv")).unwrap();
    let (mut task, sources) = tasks.into_iter().find(|(task, _)| task.name.contains("neox")).unwrap();
    let cold = median((0..3).map(|seed| trials_until_found(&task, seed, 25, None)).collect());
    task.spec.sources = sources;
    let warm = median((0..3).map(|seed| trials_until_found(&task, seed, 25, None)).collect());
    assert!(warm < cold, "warm {warm}, cold {cold}");
}

#[test]
fn beats_random_search_on_a_large_table() {
    let tasks = tables::inference_lab(&Path::new(DATA).join("inference-lab")).unwrap();
    let task = tasks.iter().find(|task| task.name.contains("qwen3") && task.name.contains("chat")).unwrap();
    let ours = median((0..3).map(|seed| trials_until_found(task, seed, 40, None)).collect());
    let random = median((0..3).map(|seed| trials_until_found(task, seed, 60, Some(Baseline::Random))).collect());
    assert!(ours <= 20 && random > ours, "ours {ours}, random {random}");
}

/// What a user gets: the best of these tables is two candidates of 864, 6 % above its surroundings.
#[test]
fn recommends_the_best_of_flat_tops_beside_what_runs_out_of_memory() {
    let tasks = tables::inference_lab(&Path::new(DATA).join("inference-lab")).unwrap();
    let runs: Vec<(&str, usize, f64)> = tasks
        .iter()
        .map(|task| {
            let (trials, regret) = recommended(task, 1, 30);
            (task.name.as_str(), trials, regret)
        })
        .collect();
    let good = runs.iter().filter(|(_, _, regret)| *regret <= 0.05).count();
    assert!(good >= runs.len() - 1, "{runs:?}");
}

/// The search until it stops by itself, and how much worse than the optimum its recommendation is.
fn recommended(task: &Task, seed: u64, budget: usize) -> (usize, f64) {
    let spec = with_baseline(task, seed);
    let problem = Problem::new(&spec);
    let limits = Limits { max_trials: budget, ..Limits::default() };
    let mut trials: Vec<Trial> = Vec::new();
    while stop(&problem, &trials, seed, &limits, Used::default()).is_none() {
        let Some(candidate) = suggest(&problem, &trials, seed, 1).first().map(|proposal| proposal.candidate) else {
            break;
        };
        trials.push(Trial { candidate, outcome: task.measure(candidate, 0.0, seed, trials.len()) });
    }
    let found = recommend(&problem, &problem.believe(&trials), &trials);
    (trials.len(), task.regret(found.map(|found| found.candidate)))
}

fn with_baseline(task: &Task, seed: u64) -> Spec {
    let mut spec = task.spec.clone();
    let first = seed.wrapping_mul(7919) % 1_000_003;
    spec.baseline = usize::try_from(first).ok().map(|first| first % spec.space.len());
    spec
}

#[test]
fn source_that_says_the_opposite_costs_little() {
    let tasks = tables::llm_pilot(&Path::new(DATA).join("llm-pilot.csv")).unwrap();
    let (mut task, _) = tasks.into_iter().find(|(task, _)| task.name.contains("xxl")).unwrap();
    let cold = median((0..5).map(|seed| trials_until_found(&task, seed, 25, None)).collect());
    task.spec.sources = vec![task.adversary()];
    let misled = median((0..5).map(|seed| trials_until_found(&task, seed, 25, None)).collect());
    assert!(misled <= cold + 2, "misled {misled}, cold {cold}");
}
