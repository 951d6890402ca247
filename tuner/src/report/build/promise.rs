//! Each constraint with what was measured and how sure it is.

use modelway_tune::recommend::{Recommendation, Shortfall};
use modelway_tune::spec::Constraint;

use super::question::limit;
use super::{Evidence, choice, load};
use crate::report::document::{Limit, Promise, Question};

/// The constraints of the search, then those up to which the load generator raised the rate.
pub(super) fn of_recommendation(evidence: &Evidence, question: &mut Question, found: &Recommendation) -> Vec<Promise> {
    let measured = choice::means(evidence, found.candidate);
    let each = evidence.spec.constraints.iter().zip(&found.constraints);
    let mut promises: Vec<Promise> = each
        .map(|(constraint, probability)| Promise {
            metric: constraint.metric.clone(),
            limit: limit(constraint.bound),
            measured: measured.get(&constraint.metric).copied(),
            probability: Some(*probability),
            ..Promise::default()
        })
        .collect();
    for searched in load::constraints(evidence, found.candidate) {
        if promises.iter().any(|promise| promise.metric == searched.metric) {
            continue;
        }
        question.units.entry(searched.metric.clone()).or_insert(searched.unit);
        promises.push(Promise {
            metric: searched.metric,
            limit: searched.limit,
            measured: searched.observed,
            certified: Some(searched.met && searched.certain),
            ..Promise::default()
        });
    }
    promises
}

/// How near any candidate came.
pub(super) fn of_shortfalls(evidence: &Evidence, shortfalls: &[Shortfall]) -> Vec<Promise> {
    let each = shortfalls.iter().map(|shortfall| Promise {
        metric: shortfall.metric.clone(),
        limit: bound(&evidence.spec.constraints, shortfall),
        measured: Some(shortfall.best),
        ever_met: Some(shortfall.met),
        ..Promise::default()
    });
    each.collect()
}

/// The side of a shortfall's limit.
fn bound(constraints: &[Constraint], shortfall: &Shortfall) -> Limit {
    let asked = constraints.iter().find(|constraint| constraint.metric == shortfall.metric);
    asked.map_or_else(|| guess(shortfall), |constraint| limit(constraint.bound))
}

/// The same where only the question is at hand.
pub(super) fn limit_of(question: &Question, shortfall: &Shortfall) -> Limit {
    let asked = question.constraints.iter().find(|(metric, _)| *metric == shortfall.metric);
    asked.map_or_else(|| guess(shortfall), |(_, limit)| *limit)
}

/// What lies beyond the limit without meeting it says on which side it is.
fn guess(shortfall: &Shortfall) -> Limit {
    let above = shortfall.best > shortfall.limit;
    if above == shortfall.met { Limit::AtLeast(shortfall.limit) } else { Limit::AtMost(shortfall.limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_of_a_limit_follows_from_what_missed_it() {
        let shortfall = |best: f64, met: bool| Shortfall { metric: "m".into(), limit: 1.0, best, candidate: 0, met };
        assert_eq!(guess(&shortfall(2.0, false)), Limit::AtMost(1.0));
        assert_eq!(guess(&shortfall(2.0, true)), Limit::AtLeast(1.0));
        assert_eq!(guess(&shortfall(0.5, false)), Limit::AtLeast(1.0));
        assert_eq!(guess(&shortfall(0.5, true)), Limit::AtMost(1.0));
    }
}
