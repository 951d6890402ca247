//! Whole experiments on a service that was measured at every candidate: its noise is real.

use std::path::Path;

use modelway_tune::belief::Problem;
use modelway_tune::experiment::{Algorithm, Attempt, Confirm, End, Next, Question, Verdict, next};
use modelway_tune::history::{Measurement, Outcome, Trial};
use modelway_tune::recommend::Recommendation;
use modelway_tune::space::{Candidate, Parameter, Space};
use modelway_tune::spec::{Goal, Objective, Spec, Transform};
use modelway_tune::stop::Limits;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Made by `cargo xtask bench tune --grid --store`.
const GRID: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tune/onnx-grid.csv");
/// Experiments.
const SEEDS: u64 = 20;

/// The service: its candidates, and requests per second of each in every pass; none where a constraint was missed.
struct Grid {
    space: Space,
    rates: Vec<Vec<Option<f64>>>,
}

impl Grid {
    fn read() -> Self {
        let text = std::fs::read_to_string(Path::new(GRID)).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        assert_eq!(head[..3], ["batch", "delay", "threads"]);
        let mut rows: Vec<(Vec<String>, Vec<Option<f64>>)> = Vec::new();
        for line in lines {
            let texts = [line[2], line[0], line[1]].map(str::to_owned).to_vec();
            rows.push((texts, line[3..].iter().map(|rate| rate.parse().ok()).collect()));
        }
        let space = Space::product(
            vec![
                Parameter::integer("threads", 1, 4, 1).unwrap(),
                Parameter::discrete("batch", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).unwrap(),
                Parameter::categorical("delay", ["0ms", "1ms", "4ms"]).unwrap(),
            ],
            0,
        )
        .unwrap();
        assert_eq!(space.len(), rows.len());
        let mut rates = vec![Vec::new(); rows.len()];
        for (texts, measured) in rows {
            rates[space.find(&texts).unwrap()] = measured;
        }
        Self { space, rates }
    }

    /// Geometric mean of the passes.
    fn mean(&self, candidate: Candidate) -> Option<f64> {
        let logarithms: Option<Vec<f64>> = self.rates[candidate].iter().map(|rate| rate.map(f64::ln)).collect();
        logarithms.map(|logarithms| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
    }

    fn best(&self) -> f64 {
        (0..self.space.len()).filter_map(|candidate| self.mean(candidate)).fold(0.0, f64::max)
    }

    fn question(&self, seed: u64) -> Question {
        let objective = Objective::Metric {
            metric: "rate".to_owned(),
            goal: Goal::Maximize,
            transform: Transform::LOG,
            per_cost: false,
        };
        let baseline = self.space.find(&["1", "1", "0ms"].map(str::to_owned));
        let spec = Spec {
            space: self.space.clone(),
            objective,
            constraints: Vec::new(),
            cost: None,
            baseline,
            sources: Vec::new(),
        };
        let limits = Limits { max_trials: 14, ..Limits::default() };
        Question { seed, limits, confirm: Confirm { top: 3, stretch: 1.7 }, ..Question::new(spec) }
    }

    /// What a trial measures: one of the passes.
    fn serve(&self, candidate: Candidate, pass: usize) -> Outcome {
        let rates = &self.rates[candidate];
        match rates[pass % rates.len()] {
            Some(rate) => {
                Outcome::Measured([("rate".to_owned(), Measurement { value: rate, variance: rate / 3.0 })].into())
            }
            None => Trial::failed(candidate, modelway_tune::history::Failure::ObjectiveUnmet).outcome,
        }
    }
}

fn carry_out(
    grid: &Grid,
    algorithm: Algorithm,
    seed: u64,
    mut serve: impl FnMut(Candidate, usize) -> Outcome,
) -> (Vec<Attempt>, End) {
    let question = Question { algorithm, ..grid.question(seed) };
    let problem = Problem::new(&question.spec);
    let mut attempts: Vec<Attempt> = Vec::new();
    loop {
        match next(&question, &problem, &attempts, 0.0) {
            Next::Start { index, candidate, purpose, .. } => {
                let outcome = serve(candidate, index);
                attempts.push(Attempt { outcome, seconds: 5.0, ..Attempt::pending(index, candidate, purpose, 0.0) });
            }
            Next::Wait => unreachable!("nothing runs"),
            Next::Finish(end) => return (attempts, *end),
        }
    }
}

/// What each experiment recommends, as a share of the best; candidates tried at most.
fn shares(grid: &Grid, algorithm: Algorithm) -> (Vec<f64>, usize) {
    let (mut shares, mut most) = (Vec::new(), 0);
    for seed in 0..SEEDS {
        let first = usize::try_from(seed).unwrap();
        let (attempts, end) = carry_out(grid, algorithm, seed, |candidate, index| grid.serve(candidate, first + index));
        let tried: std::collections::BTreeSet<Candidate> = attempts.iter().map(|attempt| attempt.candidate).collect();
        most = most.max(tried.len());
        shares.push(match end.verdict {
            Verdict::Recommended(found) => grid.mean(found.candidate).unwrap_or(0.0) / grid.best(),
            _ => 0.0,
        });
    }
    shares.sort_by(f64::total_cmp);
    (shares, most)
}

#[test]
fn experiments_come_nearer_to_the_best_of_a_noisy_service_than_chance_does() {
    let grid = Grid::read();
    let (ours, tried) = shares(&grid, Algorithm::Bayesian);
    let (random, _) = shares(&grid, Algorithm::Random);
    assert!(tried * 5 < grid.space.len(), "{tried} candidates");
    let middle = ours.len() / 2;
    assert!(ours[middle] > random[middle], "{ours:?} against {random:?}");
}

/// What an experiment finds of a service whose speed changes from start to start by this share (standard deviation): what a
/// trial's own window cannot know.
fn found(grid: &Grid, seed: u64, noise: f64) -> Option<Recommendation> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let (_, end) = carry_out(grid, Algorithm::Bayesian, seed, |candidate, _| {
        let rate = grid.mean(candidate).unwrap() * libm::exp(noise * normal());
        Outcome::Measured([("rate".to_owned(), Measurement { value: rate, variance: rate / 3.0 })].into())
    });
    if let Verdict::Recommended(found) = end.verdict { Some(found) } else { None }
}

/// Nine of ten, having tried less than a fifth: on a machine that is quiet enough to tell.
#[test]
fn experiments_on_a_quiet_machine_end_within_five_percent_of_the_best() {
    let grid = Grid::read();
    let near = (0..SEEDS).filter(|seed| {
        let found = found(&grid, *seed, 0.02);
        found.is_some_and(|found| grid.mean(found.candidate).unwrap() >= 0.95 * grid.best())
    });
    let near = near.count() as u64;
    assert!(near * 10 >= SEEDS * 9, "{near} of {SEEDS}");
}

fn share_of_gains_that_hold(grid: &Grid, noise: f64) -> f64 {
    let baseline = grid.mean(grid.question(0).spec.baseline.unwrap()).unwrap();
    let holds = (0..2 * SEEDS).filter(|seed| {
        let Some(found) = found(grid, *seed, noise) else { return false };
        let (gain, truth) = (found.gain.unwrap(), grid.mean(found.candidate).unwrap() / baseline);
        gain.low <= truth && truth <= gain.high
    });
    holds.count() as f64 / (2 * SEEDS) as f64
}

/// The interval is over the spread between starts, which only what was measured twice shows.
#[test]
fn intervals_of_gains_hold_what_a_service_gains() {
    let grid = Grid::read();
    // With much noise the best of what was seen is flattered most.
    for (noise, least) in [(0.02, 0.9), (0.08, 0.85), (0.16, 0.75)] {
        let held = share_of_gains_that_hold(&grid, noise);
        assert!(held >= least, "with {noise} of noise {held} of the intervals hold the truth");
    }
}

#[test]
fn there_is_something_to_gain() {
    let grid = Grid::read();
    let running = grid.mean(grid.question(0).spec.baseline.unwrap()).unwrap();
    assert!(grid.best() > 1.5 * running, "{} against {running}", grid.best());
}
