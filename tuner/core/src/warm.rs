//! What earlier experiments teach: a prior mean for each metric, kept only while it ranks what was measured here.

use serde::{Deserialize, Serialize};

use crate::gp::{Data, GaussianProcess, Priors, fit};
use crate::history::{Measurement, Outcome, Trial};
use crate::space::{Encoding, Space};
use crate::spec::Transform;

/// An earlier experiment over the same parameters; its candidates may be others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name, for the report.
    pub name: String,
    /// What it measured.
    pub trials: Vec<SourceTrial>,
}

/// One trial of an earlier experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceTrial {
    /// The text of each parameter's level, in the order of the parameters.
    pub settings: Vec<String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// Spread of the slope with which a source's differences carry over, around 1.
const SLOPE_SD: f64 = 0.5;

/// What no source can know of another service, as a standard deviation on the even scale.
const DOUBT: f64 = 0.3;

/// Rounds over all weights; they are few and nearly alike.
const SWEEPS: usize = 50;

/// What one source expects of one metric, on its even scale: for each candidate, less the mean over all.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Whose it is.
    pub source: String,
    /// One number a candidate.
    pub means: Vec<f64>,
}

/// What each source expects of a metric. A source that never measured it says nothing.
pub fn expectations(
    space: &Space,
    encoding: &Encoding,
    sources: &[Source],
    metric: &str,
    transform: Transform,
) -> Vec<Expectation> {
    sources.iter().filter_map(|source| expectation(space, encoding, source, metric, transform)).collect()
}

fn expectation(
    space: &Space,
    encoding: &Encoding,
    source: &Source,
    metric: &str,
    transform: Transform,
) -> Option<Expectation> {
    let mut rows = Vec::new();
    let (mut values, mut variances) = (Vec::new(), Vec::new());
    for trial in &source.trials {
        let Some(Measurement { value, variance }) = finite(&trial.outcome, metric) else { continue };
        let Some(levels) = space.level_indices(&trial.settings) else { continue };
        rows.extend(encoding.point(&levels));
        values.push(transform.forward(value));
        variances.push(transform.variance(value, variance));
    }
    let width = encoding.groups().len();
    let points = ndarray::Array2::from_shape_vec((values.len(), width), rows).ok()?;
    let process = centred_fit(points, encoding.groups(), values, variances)?;
    let mut means: Vec<f64> = process.predict_all(encoding.points()).iter().map(|belief| belief.mean).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    for value in &mut means {
        *value -= mean;
    }
    Some(Expectation { source: source.name.clone(), means })
}

fn finite(outcome: &Outcome, metric: &str) -> Option<Measurement> {
    let Outcome::Measured(values) = outcome else { return None };
    values.get(metric).copied().filter(|found| found.value.is_finite())
}

/// Fits a process to values less their mean.
fn centred_fit(
    points: ndarray::Array2<f64>,
    groups: &[usize],
    mut values: Vec<f64>,
    variances: Vec<f64>,
) -> Option<GaussianProcess> {
    let centre = values.iter().sum::<f64>() / values.len().max(1) as f64;
    for value in &mut values {
        *value -= centre;
    }
    let dimensions = groups.iter().max().map_or(0, |last| last + 1);
    let data = Data { points, groups: groups.to_vec(), values, variances };
    Some(fit(data, &Priors::new(dimensions, 1.0))?.with_centre(centre))
}

/// The prior mean that the sources give: for each candidate, calibrated to what was measured here. Zero without any.
///
/// `measured` are candidates and values here; `loss` is the leave-one-out rank loss of the model without any source. A
/// source that ranks what was measured worse than that is dropped.
pub fn prior_mean(expectations: &[Expectation], measured: &[(usize, f64)], loss: Option<f64>, size: usize) -> Vec<f64> {
    let good = |source: &&Expectation| {
        let expected: Vec<f64> = measured.iter().map(|(candidate, _)| source.means[*candidate]).collect();
        let found: Vec<f64> = measured.iter().map(|(_, value)| *value).collect();
        match (rank_loss(&expected, &found), loss) {
            // Without a source the worst is a coin: half of the pairs.
            (Some(own), Some(cold)) => own <= cold.min(0.5) + 1e-9,
            _ => true,
        }
    };
    let kept: Vec<&Expectation> = expectations.iter().filter(good).collect();
    let weights = weights(&kept, measured);
    let mut mean = vec![0.0; size];
    for (source, weight) in kept.iter().zip(weights) {
        mean.iter_mut().zip(&source.means).for_each(|(mean, value)| *mean += weight * value);
    }
    mean
}

/// How far each source's differences carry over: least squares with weights of at least 0, pulled towards equal weights
/// that sum to 1, by coordinate descent.
fn weights(kept: &[&Expectation], measured: &[(usize, f64)]) -> Vec<f64> {
    let equal = 1.0 / kept.len().max(1) as f64;
    let mut weights = vec![equal; kept.len()];
    let count = measured.len().max(1) as f64;
    let centred = |values: Vec<f64>| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / count;
        values.into_iter().map(|value| value - mean).collect()
    };
    let columns: Vec<Vec<f64>> = kept
        .iter()
        .map(|source| centred(measured.iter().map(|(candidate, _)| source.means[*candidate]).collect()))
        .collect();
    let mut residual = centred(measured.iter().map(|(_, value)| *value).collect());
    for (column, weight) in columns.iter().zip(&weights) {
        residual.iter_mut().zip(column).for_each(|(rest, value)| *rest -= weight * value);
    }
    // The spread of each weight is that of the sum, shared out.
    let pull = DOUBT * DOUBT * kept.len() as f64 / (SLOPE_SD * SLOPE_SD);
    for _ in 0..SWEEPS {
        for (column, weight) in columns.iter().zip(&mut weights) {
            let square: f64 = column.iter().map(|value| value * value).sum();
            let product: f64 = column.iter().zip(&residual).map(|(value, rest)| value * rest).sum();
            let next = ((product + square * *weight + pull * equal) / (square + pull)).max(0.0);
            residual.iter_mut().zip(column).for_each(|(rest, value)| *rest -= (next - *weight) * value);
            *weight = next;
        }
    }
    weights
}

/// Share of pairs that are in the wrong order; ties count half. `None` without a pair.
pub fn rank_loss(expected: &[f64], found: &[f64]) -> Option<f64> {
    let (mut wrong, mut pairs) = (0.0, 0.0);
    for left in 0..found.len() {
        for right in 0..left {
            let difference = found[left] - found[right];
            if difference.abs() < 1e-12 {
                continue;
            }
            let guess = (expected[left] - expected[right]) * difference.signum();
            pairs += 1.0;
            wrong += if guess.abs() < 1e-12 { 0.5 } else { f64::from(u8::from(guess < 0.0)) };
        }
    }
    (pairs > 0.0).then(|| wrong / pairs)
}

/// The finite measurements of a metric on its even scale, with the candidates, for `trials` in a fixed order.
pub(crate) fn measured<'a>(
    trials: impl IntoIterator<Item = &'a Trial>,
    metric: &str,
    transform: Transform,
) -> Vec<(usize, f64, f64)> {
    let each = trials.into_iter().filter_map(|trial| {
        let found = trial.measurement(metric)?;
        Some((trial.candidate, transform.forward(found.value), transform.variance(found.value, found.variance)))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(means: &[f64]) -> Expectation {
        Expectation { source: "earlier".to_owned(), means: means.to_vec() }
    }

    #[test]
    fn loss_counts_pairs_in_the_wrong_order() {
        assert_eq!(rank_loss(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), Some(0.0));
        assert_eq!(rank_loss(&[3.0, 2.0, 1.0], &[1.0, 2.0, 3.0]), Some(1.0));
        // Pairs (1, 2) tied in what is expected, (1, 3) and (2, 3) right: half of one in three.
        assert_eq!(rank_loss(&[1.0, 1.0, 3.0], &[1.0, 2.0, 3.0]), Some(0.5 / 3.0));
        assert_eq!(rank_loss(&[1.0], &[1.0]), None);
    }

    #[test]
    fn source_is_believed_before_anything_is_measured() {
        assert_eq!(prior_mean(&[source(&[-1.0, 0.0, 1.0])], &[], None, 3), [-1.0, 0.0, 1.0]);
    }

    #[test]
    fn source_that_says_the_opposite_is_dropped_after_two_trials() {
        let opposite = [source(&[-1.0, 0.0, 1.0])];
        assert_eq!(prior_mean(&opposite, &[(0, 5.0), (2, 3.0)], Some(1.0), 3), [0.0; 3]);
    }

    #[test]
    fn worse_source_than_none_is_dropped_and_the_other_kept() {
        let sources = [source(&[-1.0, 0.5, 0.0, 0.5]), source(&[-1.0, -0.3, 0.3, 1.0])];
        let measured = [(0, 0.0), (1, 0.7), (2, 1.3), (3, 2.0)];
        let mean = prior_mean(&sources, &measured, Some(0.1), 4);
        assert!(mean.windows(2).all(|pair| pair[0] < pair[1]), "{mean:?}");
    }

    /// One source, differences -1 and 1, measured ones of 2: (2 * 2 + 0.36) / (2 + 0.36).
    #[test]
    fn calibration_follows_the_measurements_as_far_as_they_are_more_than_the_prior() {
        let mean = prior_mean(&[source(&[-1.0, 1.0])], &[(0, 1.0), (1, 5.0)], Some(0.5), 2);
        let slope = (2.0 * 2.0 + 0.36) / 2.36;
        assert!((mean[1] - slope).abs() < 1e-9 && (mean[0] + slope).abs() < 1e-9, "{mean:?}");
    }
}
