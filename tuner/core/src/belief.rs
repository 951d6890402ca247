//! What is believed about every candidate, given the trials so far.

use crate::feasibility::{Classifier, records};
use crate::gp::{Data, GaussianProcess, Prediction, Priors, fit, fit_noises};
use crate::history::{Outcome, Trial, ordered};
use crate::math::normal;
use crate::space::{Candidate, Encoding};
use crate::spec::{Bound, Goal, Objective, Spec, Transform};
use crate::warm::{self, Expectation};

/// A resource of twice the size gives, before anything is measured, this power of two more of what is maximised: between
/// nothing (it is not the bottleneck) and all of it.
const RESOURCE_RATE: f64 = 0.5;

/// The same for latencies, which fall more slowly.
const RESOURCE_LATENCY: f64 = 0.3;

/// A spec with what does not change during a search worked out once.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// What is asked.
    pub spec: &'a Spec,
    /// Its candidates as points.
    pub encoding: Encoding,
    /// For each modelled metric, what each source expects.
    expectations: Vec<Vec<Expectation>>,
    /// For each modelled metric, what resources alone would do.
    trends: Vec<Vec<f64>>,
}

/// One model: the metric's process and its prior mean.
#[derive(Clone, Debug)]
pub struct MetricModel {
    process: GaussianProcess,
    prior_mean: Vec<f64>,
}

/// Beliefs about all candidates.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The objective as a score, higher is better, on the scale on which improvements are compared.
    pub score: Vec<Prediction>,
    /// For each constraint, the metric on its even scale.
    pub constraints: Vec<Vec<Prediction>>,
    /// `ln` of the probability that the candidate runs.
    pub ln_works: Vec<f64>,
    /// `ln` of the probability that it runs and every constraint holds.
    pub ln_feasible: Vec<f64>,
}

impl<'a> Problem<'a> {
    /// Encodes the candidates and fits the sources.
    pub fn new(spec: &'a Spec) -> Self {
        let encoding = Encoding::of(&spec.space);
        let expectations = metrics(spec)
            .iter()
            .map(|(metric, transform)| warm::expectations(&spec.space, &encoding, &spec.sources, metric, *transform))
            .collect();
        let trends = trends(spec, &encoding);
        Self { spec, encoding, expectations, trends }
    }

    /// Fits all models. Pending trials are believed to come out as expected.
    pub fn believe(&self, trials: &[Trial]) -> Belief {
        let trials = ordered(trials);
        let pending: Vec<Candidate> =
            trials.iter().filter(|trial| trial.outcome == Outcome::Pending).map(|trial| trial.candidate).collect();
        let believe = |index: usize, (metric, transform): &(&str, Transform)| {
            let model = self.model(index, &trials, metric, *transform);
            self.predictions(index, model.map(|model| model.believing(&self.encoding, &pending)))
        };
        let metrics = metrics(self.spec);
        let mut beliefs: Vec<Vec<Prediction>> =
            metrics.iter().enumerate().map(|(index, metric)| believe(index, metric)).collect();
        let constraints = beliefs.split_off(beliefs.len() - self.spec.constraints.len());
        let score = self.score(beliefs.pop());
        let ln_works = self.ln_works(&trials);
        let ln_feasible = (0..score.len())
            .map(|candidate| {
                let held = self.spec.constraints.iter().zip(&constraints);
                let held = held
                    .map(|(constraint, beliefs)| ln_holds(constraint.bound, constraint.transform, beliefs[candidate]));
                ln_works[candidate] + held.sum::<f64>()
            })
            .collect();
        Belief { score, constraints, ln_works, ln_feasible }
    }

    /// Scores of all candidates for each of several levels of noise, with weights that sum to one: how wide an interval is
    /// hangs on the noise, of which few trials say little. Empty before anything is measured, or when costs are the score.
    pub fn scores_by_noise(&self, trials: &[Trial]) -> Vec<(f64, Vec<Prediction>)> {
        let Objective::Metric { metric, transform, .. } = &self.spec.objective else { return Vec::new() };
        let trials = ordered(trials);
        let Some(model) = self.model(0, &trials, metric, *transform) else { return Vec::new() };
        let measured = warm::measured(trials.iter().copied(), metric, *transform);
        let (data, priors, centre) = data_of(&self.encoding, &measured, &model.prior_mean, *transform);
        let with_noise = |(weight, process): (f64, GaussianProcess)| {
            let model = MetricModel { process: process.with_centre(centre), prior_mean: model.prior_mean.clone() };
            (weight, self.score(Some(model.predict_all(&self.encoding))))
        };
        fit_noises(&data, &priors).into_iter().map(with_noise).collect()
    }

    /// The model of one metric; `None` before it is measured.
    fn model(&self, index: usize, trials: &[&Trial], metric: &str, transform: Transform) -> Option<MetricModel> {
        let measured = warm::measured(trials.iter().copied(), metric, transform);
        let expectations = &self.expectations[index];
        let plain = MetricModel::fit(&self.encoding, &measured, self.trends[index].clone(), transform)?;
        if expectations.is_empty() {
            return Some(plain);
        }
        let values: Vec<f64> = measured.iter().map(|(_, value, _)| *value).collect();
        let left_out: Vec<f64> = plain.process.leave_one_out().iter().map(|belief| belief.mean).collect();
        let loss = warm::rank_loss(&left_out, &values);
        let pairs: Vec<(usize, f64)> = measured.iter().map(|(candidate, value, _)| (*candidate, *value)).collect();
        let prior_mean = warm::prior_mean(expectations, &pairs, loss, self.spec.space.len());
        MetricModel::fit(&self.encoding, &measured, prior_mean, transform)
    }

    /// Without a model: whatever the sources say, and wide doubt.
    fn predictions(&self, index: usize, model: Option<MetricModel>) -> Vec<Prediction> {
        if let Some(model) = model {
            return model.predict_all(&self.encoding);
        }
        let mean = if self.expectations[index].is_empty() {
            self.trends[index].clone()
        } else {
            warm::prior_mean(&self.expectations[index], &[], None, self.spec.space.len())
        };
        mean.into_iter().map(|mean| Prediction { mean, sd: 3.0 }).collect()
    }

    fn score(&self, metric: Option<Vec<Prediction>>) -> Vec<Prediction> {
        let cost = |candidate| self.spec.cost_of(candidate);
        match (&self.spec.objective, metric) {
            (Objective::Metric { goal, transform, per_cost, .. }, Some(beliefs)) => beliefs
                .into_iter()
                .enumerate()
                .map(|(candidate, belief)| score(*goal, *transform, belief, per_cost.then(|| cost(candidate))))
                .collect(),
            _ => (0..self.spec.space.len())
                .map(|candidate| Prediction { mean: -libm::log(cost(candidate)), sd: 0.0 })
                .collect(),
        }
    }

    fn ln_works(&self, trials: &[&Trial]) -> Vec<f64> {
        let known: Vec<(Candidate, bool)> =
            trials.iter().filter_map(|trial| trial.works().map(|works| (trial.candidate, works))).collect();
        let candidates: Vec<Candidate> = known.iter().map(|(candidate, _)| *candidate).collect();
        let works: Vec<bool> = known.iter().map(|(_, works)| *works).collect();
        let rows = self.encoding.rows(&candidates);
        let Some(classifier) = Classifier::fit(&rows, self.encoding.groups(), &works) else {
            return vec![0.0; self.spec.space.len()];
        };
        let mut ln_works = classifier.ln_probabilities(self.encoding.points());
        for (candidate, record) in records(&known) {
            ln_works[candidate] = record.ln_probability(ln_works[candidate]);
        }
        ln_works
    }
}

/// The modelled metrics with their scales: the objective's, then each constraint's.
fn metrics(spec: &Spec) -> Vec<(&str, Transform)> {
    let objective = match &spec.objective {
        Objective::Metric { metric, transform, .. } => Some((metric.as_str(), *transform)),
        Objective::Cost => None,
    };
    let constraints = spec.constraints.iter().map(|constraint| (constraint.metric.as_str(), constraint.transform));
    objective.into_iter().chain(constraints).collect()
}

/// How the resources alone would change each modelled metric: for each candidate.
fn trends(spec: &Spec, encoding: &Encoding) -> Vec<Vec<f64>> {
    let objective = match &spec.objective {
        Objective::Metric { goal, transform, .. } => {
            Some((*transform, if *goal == Goal::Maximize { RESOURCE_RATE } else { -RESOURCE_LATENCY }))
        }
        Objective::Cost => None,
    };
    let constraints = spec.constraints.iter().map(|constraint| {
        let slope = match constraint.bound {
            Bound::AtMost(_) => -RESOURCE_LATENCY,
            Bound::AtLeast(_) => RESOURCE_LATENCY,
        };
        (constraint.transform, slope)
    });
    let trend = |(transform, slope): (Transform, f64)| {
        let slope = if matches!(transform, Transform::Log { .. }) { slope } else { 0.0 };
        encoding.growth().iter().map(|growth| slope * growth).collect()
    };
    objective.into_iter().chain(constraints).map(trend).collect()
}

/// A metric's belief as a score: higher is better.
fn score(goal: Goal, transform: Transform, belief: Prediction, cost: Option<f64>) -> Prediction {
    let Prediction { mean, sd } = belief;
    let cost = cost.unwrap_or(1.0);
    match (goal, transform) {
        (Goal::Maximize, Transform::Log { .. }) => Prediction { mean: mean - libm::log(cost), sd },
        (Goal::Minimize, Transform::Log { .. }) => Prediction { mean: -mean - libm::log(cost), sd },
        (Goal::Maximize, Transform::Linear) => Prediction { mean: mean / cost, sd: sd / cost },
        (Goal::Minimize, Transform::Linear) => Prediction { mean: -mean * cost, sd: sd * cost },
        (Goal::Maximize, Transform::Logit { .. }) => Prediction { mean, sd },
        (Goal::Minimize, Transform::Logit { .. }) => Prediction { mean: -mean, sd },
    }
}

/// `ln` of the probability that a limit holds.
pub fn ln_holds(bound: Bound, transform: Transform, belief: Prediction) -> f64 {
    let limit = transform.forward(bound.limit());
    let sd = belief.sd.max(1e-6);
    match bound {
        Bound::AtMost(_) => normal::ln_cdf((limit - belief.mean) / sd),
        Bound::AtLeast(_) => normal::ln_cdf((belief.mean - limit) / sd),
    }
}

impl MetricModel {
    fn fit(
        encoding: &Encoding,
        measured: &[(usize, f64, f64)],
        prior_mean: Vec<f64>,
        transform: Transform,
    ) -> Option<Self> {
        let (data, priors, centre) = data_of(encoding, measured, &prior_mean, transform);
        let process = fit(data, &priors)?.with_centre(centre);
        Some(Self { process, prior_mean })
    }

    fn believing(self, encoding: &Encoding, pending: &[Candidate]) -> Self {
        if pending.is_empty() {
            return self;
        }
        Self { process: self.process.believing(&encoding.rows(pending)), prior_mean: self.prior_mean }
    }

    fn predict_all(&self, encoding: &Encoding) -> Vec<Prediction> {
        let beliefs = self.process.predict_all(encoding.points());
        let add = |(belief, prior): (Prediction, &f64)| Prediction { mean: belief.mean + prior, sd: belief.sd };
        beliefs.into_iter().zip(&self.prior_mean).map(add).collect()
    }
}

/// What a process is fitted to, around the mean that is taken off.
fn data_of(
    encoding: &Encoding,
    measured: &[(usize, f64, f64)],
    prior_mean: &[f64],
    transform: Transform,
) -> (Data, Priors, f64) {
    let candidates: Vec<usize> = measured.iter().map(|(candidate, ..)| *candidate).collect();
    let mut values: Vec<f64> = measured.iter().map(|(candidate, value, _)| value - prior_mean[*candidate]).collect();
    let centre = values.iter().sum::<f64>() / values.len().max(1) as f64;
    for value in &mut values {
        *value -= centre;
    }
    let dimensions = encoding.groups().iter().max().map_or(0, |last| last + 1);
    let priors = Priors::new(dimensions, scale(transform, &values, centre));
    let data = Data {
        points: encoding.rows(&candidates),
        groups: encoding.groups().to_vec(),
        values,
        variances: measured.iter().map(|(.., variance)| *variance).collect(),
    };
    (data, priors, centre)
}

/// By how much a metric typically changes: a factor of e for logarithms, else what was seen.
fn scale(transform: Transform, centred: &[f64], centre: f64) -> f64 {
    match transform {
        Transform::Log { .. } => 1.0,
        Transform::Logit { .. } => 2.0,
        Transform::Linear => {
            let variance = centred.iter().map(|value| value * value).sum::<f64>() / centred.len().max(1) as f64;
            let seen = variance.sqrt().max(0.1 * centre.abs());
            if seen > 0.0 { seen } else { 1.0 }
        }
    }
}
