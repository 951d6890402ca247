//! One search on one task: trials until the incumbent is the answer.

use modelway_tune::baseline::{self, Baseline};
use modelway_tune::belief::Problem;
use modelway_tune::history::{Measurement, Outcome, Trial};
use modelway_tune::incumbent::{incumbent, to_confirm};
use modelway_tune::recommend::recommend;
use modelway_tune::space::Candidate;
use modelway_tune::spec::{Goal, Spec};
use modelway_tune::stop::{Limits, Used, stop};
use modelway_tune::suggest::suggest;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::rival::Rival;
use crate::task::Task;

/// Who searches.
pub enum Method<'a> {
    /// The tuner.
    Ours,
    /// A rival of this crate.
    Baseline(Baseline),
    /// A rival in another process.
    Rival(&'a mut Rival),
}

/// Trials until the incumbent is within 5 % of the true optimum; `budget + 1` when it never is.
pub fn trials_until_found(
    task: &Task,
    method: &mut Method,
    seed: u64,
    budget: usize,
    noise: f64,
) -> anyhow::Result<usize> {
    let spec = with_baseline(task, seed);
    let problem = Problem::new(&spec);
    let mut trials: Vec<Trial> = Vec::new();
    if let Method::Rival(rival) = method {
        rival.begin(&spec, seed)?;
    }
    for index in 0..budget {
        let next = match method {
            Method::Ours => suggest(&problem, &trials, seed, 1).first().map(|proposal| proposal.candidate),
            Method::Baseline(baseline) => baseline::next(*baseline, &problem, &trials, seed),
            Method::Rival(_) if index == 0 => spec.baseline,
            Method::Rival(rival) => rival.ask(&spec, &trials)?,
        };
        let Some(candidate) = next else { break };
        let trial = Trial { candidate, outcome: task.measure(candidate, noise, seed, index) };
        if let Method::Rival(rival) = method {
            rival.tell(&spec, &trial)?;
        }
        trials.push(trial);
        let best = match method {
            Method::Ours => incumbent(&problem, &problem.believe(&trials), &trials),
            _ => best_measured(&spec, &trials),
        };
        if task.found(best) {
            return Ok(index + 1);
        }
    }
    Ok(budget + 1)
}

/// What a user gets: the search until it stops by itself, the top three measured again for longer, the recommendation.
/// Trials used and the candidate.
pub fn reported(task: &Task, seed: u64, budget: usize, noise: f64) -> (usize, Option<Candidate>) {
    let spec = with_baseline(task, seed);
    let problem = Problem::new(&spec);
    let limits = Limits { max_trials: budget, ..Limits::default() };
    let mut trials: Vec<Trial> = Vec::new();
    while stop(&problem, &trials, seed, &limits, Used::default()).is_none() {
        let Some(next) = suggest(&problem, &trials, seed, 1).first().copied() else { break };
        let outcome = task.measure(next.candidate, noise, seed, trials.len());
        trials.push(Trial { candidate: next.candidate, outcome });
    }
    let used = trials.len();
    let belief = problem.believe(&trials);
    for candidate in to_confirm(&problem, &belief, &trials, 3) {
        let again: Vec<Outcome> =
            (0..4).map(|repeat| task.measure(candidate, noise, seed, 1000 + candidate * 4 + repeat)).collect();
        trials.push(Trial { candidate, outcome: longer(&again) });
    }
    let belief = problem.believe(&trials);
    (used, recommend(&problem, &belief, &trials).map(|recommendation| recommendation.candidate))
}

/// Four windows as one measurement.
fn longer(windows: &[Outcome]) -> Outcome {
    let mut sum: std::collections::BTreeMap<String, Measurement> = std::collections::BTreeMap::new();
    let count = windows.len() as f64;
    for window in windows {
        let Outcome::Measured(metrics) = window else { return window.clone() };
        for (name, found) in metrics {
            let total = sum.entry(name.clone()).or_insert(Measurement { value: 0.0, variance: 0.0 });
            total.value += found.value / count;
            total.variance += found.variance / count / count;
        }
    }
    Outcome::Measured(sum)
}

/// Every method begins at the same candidate: the running spec, which is any.
fn with_baseline(task: &Task, seed: u64) -> Spec {
    let mut spec = task.spec.clone();
    let mut generator = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    spec.baseline = Some(generator.random_range(0..spec.space.len()));
    spec
}

fn best_measured(spec: &Spec, trials: &[Trial]) -> Option<Candidate> {
    let values = trials.iter().filter(|trial| trial.meets(spec)).filter_map(|trial| {
        let value = trial.value(spec)?;
        Some((if spec.goal() == Goal::Maximize { value } else { -value }, trial.candidate))
    });
    values.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, candidate)| candidate)
}
