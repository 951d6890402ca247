//! Which parameters matter, and what lies around the recommendation.

use modelway_tune::insight;
use modelway_tune::space::{Candidate, Scale};

use super::Evidence;
use super::choice::interval;
use crate::report::document::{Importance, Step};

/// Other values of one parameter that are shown: the nearest, or the best of words.
const VALUES: usize = 8;

/// The most important first. Nothing before enough was measured for the models to differ from their priors.
pub(super) fn importance(evidence: &Evidence) -> Vec<Importance> {
    let measured = evidence.trials.iter().filter(|trial| trial.value(evidence.spec).is_some());
    let candidates: std::collections::BTreeSet<Candidate> = measured.map(|trial| trial.candidate).collect();
    let Some(belief) = evidence.belief.as_ref().filter(|_| candidates.len() > 1) else { return Vec::new() };
    let found = insight::importance(evidence.problem, belief);
    let mut rows: Vec<Importance> = found
        .into_iter()
        .map(|found| Importance { parameter: found.parameter, alone: found.alone, total: found.total })
        .collect();
    rows.sort_by(|left, right| right.total.total_cmp(&left.total));
    rows
}

/// One step and more around the recommendation, parameter by parameter.
pub(super) fn sensitivity(evidence: &Evidence) -> Vec<Step> {
    let (Some(found), Some(belief)) = (evidence.recommendation(), evidence.belief.as_ref()) else { return Vec::new() };
    let steps = insight::sensitivity(evidence.problem, belief, found.candidate);
    let mut kept = Vec::new();
    for (index, parameter) in evidence.spec.space.parameters().iter().enumerate() {
        let own = evidence.spec.space.indices(found.candidate)[index];
        let ordered = matches!(parameter.scale, Scale::Linear | Scale::Log2);
        let level = |step: &insight::Step| evidence.spec.space.indices(step.candidate)[index];
        let mut of_parameter: Vec<&insight::Step> =
            steps.iter().filter(|step| step.parameter == parameter.name).collect();
        if of_parameter.len() > VALUES {
            of_parameter.sort_by(|left, right| {
                let near = level(left).abs_diff(own).cmp(&level(right).abs_diff(own));
                let good = belief.score[right.candidate].mean.total_cmp(&belief.score[left.candidate].mean);
                if ordered { near } else { good }
            });
            of_parameter.truncate(VALUES);
            of_parameter.sort_by_key(|step| level(step));
        }
        kept.extend(of_parameter.into_iter().map(|step| around(evidence, step)));
    }
    kept
}

fn around(evidence: &Evidence, step: &insight::Step) -> Step {
    Step {
        parameter: step.parameter.clone(),
        level: step.level.clone(),
        objective: interval(step.value),
        probability: step.probability,
        tried: evidence.trials.iter().any(|trial| trial.candidate == step.candidate && trial.works().is_some()),
    }
}
