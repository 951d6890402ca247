//! The decision in words.

use crate::report::document::{Change, Interval, Question};
use crate::report::quantity::{change, significant};

/// Changes that fit into a line.
const SPELLED_OUT: usize = 4;

/// What to set: every change, or how many there are.
pub(super) fn settings(changes: &[Change]) -> String {
    let changed: Vec<&Change> = changes.iter().filter(|change| change.from.as_deref() != Some(&change.to)).collect();
    let known = changes.iter().any(|change| change.from.is_some());
    if changed.len() > SPELLED_OUT {
        let count = changed.len();
        return if known {
            format!("Change {count} of {} parameters", changes.len())
        } else {
            format!("Run the recommended {count} settings")
        };
    }
    let pairs: Vec<String> = changed.iter().map(|change| format!("{} = {}", change.parameter, change.to)).collect();
    match pairs.split_last() {
        None => "Change nothing".to_owned(),
        Some((last, [])) => format!("Set {last}"),
        Some((last, others)) => format!("Set {} and {last}", others.join(", ")),
    }
}

/// What the objective is about.
pub(super) fn subject(question: &Question) -> String {
    match (&question.metric, question.objective.split_once(' ')) {
        (Some(_), Some((_, subject))) => subject.to_owned(),
        _ => "cost".to_owned(),
    }
}

/// A gain as what happens to the objective's value: less of what should be low.
pub(in crate::report) fn effect(question: &Question, gain: Interval) -> Interval {
    if !question.minimize {
        return gain;
    }
    Interval { estimate: 1.0 / gain.estimate, low: 1.0 / gain.high, high: 1.0 / gain.low }
}

/// `2.31 times the rate per cost`, `57 % lower p95`.
pub(super) fn gain(question: &Question, gain: Interval) -> String {
    let factor = effect(question, gain).estimate;
    let (subject, percent) = (subject(question), (factor - 1.0).abs() * 100.0);
    let (more, less) = if question.minimize { ("higher", "lower") } else { ("more", "less") };
    match factor {
        factor if !factor.is_finite() => format!("{subject} unknown"),
        factor if factor >= 2.0 => format!("{} times the {subject}", significant(factor, 3)),
        _ if percent < 0.05 => format!("the same {subject}"),
        factor if factor >= 1.0 => format!("{} % {more} {subject}", significant(percent, 2)),
        _ => format!("{} % {less} {subject}", significant(percent, 2)),
    }
}

/// The interval of a gain: `×2.1 to ×2.54, 95 % interval`; what follows from prices alone has none.
pub(in crate::report) fn interval(question: &Question, gain: Interval) -> String {
    let effect = effect(question, gain);
    let (low, high) = (change(effect.low), change(effect.high));
    if low == high { format!("{low}, by price alone") } else { format!("{low} to {high}, 95 % interval") }
}

/// `one trial`, `7 trials`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("one {one}") } else { format!("{} {many}", crate::report::quantity::whole(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_of(parameter: &str, from: Option<&str>, to: &str) -> Change {
        Change { parameter: parameter.to_owned(), from: from.map(str::to_owned), to: to.to_owned() }
    }

    #[test]
    fn few_changes_are_spelled_out() {
        let same = change_of("a", Some("1"), "1");
        assert_eq!(settings(std::slice::from_ref(&same)), "Change nothing");
        let one = change_of("b", Some("1"), "2");
        assert_eq!(settings(&[same.clone(), one.clone()]), "Set b = 2");
        assert_eq!(settings(&[one.clone(), one.clone(), one.clone()]), "Set b = 2, b = 2 and b = 2");
        let many = [same, one.clone(), one.clone(), one.clone(), one.clone(), one];
        assert_eq!(settings(&many), "Change 5 of 6 parameters");
    }

    #[test]
    fn gains_say_which_way() {
        let rate = Question { objective: "highest rate".into(), metric: Some("rate".into()), ..Question::default() };
        let time = Question {
            objective: "lowest p95".into(),
            metric: Some("p95".into()),
            minimize: true,
            ..Question::default()
        };
        let half = Interval { estimate: 2.0, low: 1.6, high: 2.5 };
        assert_eq!(gain(&rate, half), "2 times the rate");
        assert_eq!(gain(&time, half), "50 % lower p95");
        assert_eq!(interval(&time, half), "\u{2212}60 % to \u{2212}38 %, 95 % interval");
        assert_eq!(gain(&rate, Interval { estimate: 0.9, ..half }), "10 % less rate");
    }
}
