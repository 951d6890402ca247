//! Tasks: a spec, and a table that says what each candidate would measure.

use std::collections::BTreeMap;

use modelway_tune::history::{Failure, Measurement, Outcome, Trial};
use modelway_tune::space::Candidate;
use modelway_tune::spec::{Goal, Spec};
use modelway_tune::warm::{Source, SourceTrial};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Trials within this share of the true optimum count as having found it.
const WITHIN: f64 = 0.05;

/// What a candidate truly does.
#[derive(Clone, Debug)]
pub enum Truth {
    /// It runs, with these metrics.
    Runs(BTreeMap<String, f64>),
    /// It does not.
    Fails(Failure),
}

/// One search problem with a known answer.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// What is asked.
    pub spec: Spec,
    /// The answer of each candidate.
    pub truth: Vec<Truth>,
}

impl Task {
    /// What a trial of a candidate says; `noise` is the relative spread of every metric.
    pub fn measure(&self, candidate: Candidate, noise: f64, seed: u64, index: usize) -> Outcome {
        match &self.truth[candidate] {
            Truth::Fails(failure) => Outcome::Failed(*failure),
            Truth::Runs(metrics) => {
                let mut generator = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(index as u64));
                let mut measure = |(name, value): (&String, &f64)| {
                    let z: f64 = StandardNormal.sample(&mut generator);
                    let value = value * (noise * z).exp();
                    (name.clone(), Measurement { value, variance: (value * noise).powi(2) })
                };
                Outcome::Measured(metrics.iter().map(&mut measure).collect())
            }
        }
    }

    /// The true objective of a candidate; `None` where it fails or breaks a constraint.
    pub fn true_value(&self, candidate: Candidate) -> Option<f64> {
        let trial = Trial { candidate, outcome: self.measure(candidate, 0.0, 0, 0) };
        trial.meets(&self.spec).then(|| trial.value(&self.spec)).flatten()
    }

    /// The true optimum.
    pub fn optimum(&self) -> Option<f64> {
        let values = (0..self.truth.len()).filter_map(|candidate| self.true_value(candidate));
        values.reduce(|best, next| match self.spec.goal() {
            Goal::Maximize => best.max(next),
            Goal::Minimize => best.min(next),
        })
    }

    /// By how much a candidate is worse than the optimum, as a share; 1 where it breaks a constraint.
    pub fn regret(&self, candidate: Option<Candidate>) -> f64 {
        let value = candidate.and_then(|candidate| self.true_value(candidate));
        let (Some(value), Some(optimum)) = (value, self.optimum()) else { return 1.0 };
        match self.spec.goal() {
            Goal::Maximize => 1.0 - value / optimum,
            Goal::Minimize => 1.0 - optimum / value,
        }
    }

    /// Whether a candidate counts as the answer.
    pub fn found(&self, candidate: Option<Candidate>) -> bool {
        self.regret(candidate) <= WITHIN
    }

    /// A source that says the opposite of the truth: what is fast here was slow there.
    pub fn adversary(&self) -> Source {
        let turned = |(name, found): (&String, &Measurement)| {
            (name.clone(), Measurement { value: 1e6 / found.value.max(1e-3), variance: 0.0 })
        };
        let trials = (0..self.truth.len()).filter_map(|candidate| {
            let Outcome::Measured(metrics) = self.measure(candidate, 0.0, 0, 0) else { return None };
            let settings = self.spec.space.levels(candidate).iter().map(|level| level.text.clone()).collect();
            Some(SourceTrial { settings, outcome: Outcome::Measured(metrics.iter().map(turned).collect()) })
        });
        Source { name: "adversary".to_owned(), trials: trials.collect() }
    }
}
