//! One step from the best in a way that nothing is known of: where a smooth model is most often wrong.
//!
//! A service saturates, runs out of memory or hits a limit between one level and the next. Around the best candidates each
//! change of one parameter is looked at once, unless the model is sure that it is worse.

use std::collections::BTreeSet;

use crate::acquisition::ln_expected_improvement;
use crate::belief::Belief;
use crate::gp::Prediction;
use crate::space::{Candidate, Space};

/// How wrong the model may be about such a step, as a standard deviation of the score: 10 % where scores are logarithms.
const DOUBT: f64 = 0.1;

/// A change of one parameter: which, from which level, to which.
type Step = (usize, usize, usize);

/// The untried step from any of `top` that promises the most, and how much; the first of equals.
pub fn most_promising(
    space: &Space,
    belief: &Belief,
    taken: &BTreeSet<Candidate>,
    top: &[Candidate],
    bar: f64,
) -> Option<(Candidate, f64)> {
    let promise = |candidate: Candidate| {
        libm::exp(ln_expected_improvement(doubtful(belief.score[candidate]), bar) + belief.ln_feasible[candidate])
    };
    untried(space, taken, top)
        .into_iter()
        .map(|candidate| (candidate, promise(candidate)))
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
}

/// What is known exactly, such as a cost, is not doubted.
fn doubtful(score: Prediction) -> Prediction {
    if score.sd > 0.0 { Prediction { sd: score.sd.max(DOUBT), ..score } } else { score }
}

/// Candidates one step from any of `top`, by a step that was not tried from any of them, in rising order.
fn untried(space: &Space, taken: &BTreeSet<Candidate>, top: &[Candidate]) -> Vec<Candidate> {
    let steps_to = |to: Candidate| top.iter().filter_map(move |from| step(space, *from, to));
    let tried: BTreeSet<Step> = taken.iter().flat_map(|to| steps_to(*to)).collect();
    let is_new = |to: &Candidate| !taken.contains(to) && steps_to(*to).any(|step| !tried.contains(&step));
    (0..space.len()).filter(is_new).collect()
}

fn step(space: &Space, from: Candidate, to: Candidate) -> Option<Step> {
    if !space.is_next_to(from, to) {
        return None;
    }
    let (from, to) = (space.indices(from), space.indices(to));
    let parameter = (0..from.len()).find(|index| from[*index] != to[*index])?;
    Some((parameter, from[parameter], to[parameter]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Parameter;

    /// Candidate = 4 x threads + batch, each 0 to 3.
    fn space() -> Space {
        let parameters =
            vec![Parameter::integer("threads", 0, 3, 1).unwrap(), Parameter::integer("batch", 0, 3, 1).unwrap()];
        Space::product(parameters, 0).unwrap()
    }

    fn belief(score: impl Fn(Candidate) -> Prediction) -> Belief {
        let score: Vec<Prediction> = (0..16).map(score).collect();
        Belief { score, constraints: vec![], ln_works: vec![0.0; 16], ln_feasible: vec![0.0; 16] }
    }

    #[test]
    fn each_step_is_tried_once_from_all_that_are_as_good() {
        let space = space();
        assert_eq!(untried(&space, &BTreeSet::from([5]), &[5]), [1, 4, 6, 9]);
        // More threads were tried from 5: not again from 6, which is as good; further on from there is new.
        assert_eq!(untried(&space, &BTreeSet::from([5, 6, 9]), &[5, 6]), [1, 2, 4, 7]);
        assert!(untried(&space, &BTreeSet::from([5, 6]), &[]).is_empty());
    }

    #[test]
    fn step_that_the_model_is_too_sure_of_is_still_looked_at() {
        let sure = belief(|candidate| Prediction { mean: if candidate == 6 { -0.05 } else { -1.0 }, sd: 0.001 });
        let (candidate, promise) = most_promising(&space(), &sure, &BTreeSet::from([5]), &[5], 0.0).unwrap();
        assert!(candidate == 6 && promise > 0.01 && promise < 0.04, "{candidate}, {promise}");
    }

    #[test]
    fn exact_score_is_not_doubted() {
        let costs = belief(|_| Prediction { mean: -0.05, sd: 0.0 });
        let (_, promise) = most_promising(&space(), &costs, &BTreeSet::from([5]), &[5], 0.0).unwrap();
        assert!(promise <= 0.0, "{promise}");
    }
}
