//! The best so far against the number of trials.

use maud::{Markup, html};

use super::frame::{Axis, Frame};
use super::mark::Kind;
use super::{at, drawing};
use crate::report::Report;
use crate::report::document::{Purpose, TrialOutcome, TrialRow};
use crate::report::quantity::{Unit, whole};

const HEIGHT: f64 = 260.0;

/// Room at the foot of the plot for trials without a value.
const FOOT: f64 = 14.0;

/// Draws it.
pub fn progress(report: &Report, title: &str) -> Markup {
    let x = Axis { whole: true, ..Axis::new("trial", Unit::default()) };
    let better = if report.question.minimize { "lower is better" } else { "higher is better" };
    let y = Axis::new(format!("objective ({better})"), report.question.unit.clone());
    let values: Vec<f64> = report.trials.iter().filter_map(|trial| trial.objective).collect();
    let last = report.trials.len().max(2) as f64;
    let frame = Frame::new(HEIGHT, (&x, &[0.0, last]), (&y, &values));
    let content = html! {
        (again(&frame, &report.trials))
        (frame.draw())
        path class="best" d=(best(&frame, &report.trials)) {}
        @for trial in &report.trials { (point(&frame, report, trial)) }
    };
    drawing("progress", HEIGHT, title, &description(report), &content)
}

fn place(frame: &Frame, trial: &TrialRow) -> f64 {
    frame.x.place(trial.number as f64)
}

/// Where candidates are measured again.
fn again(frame: &Frame, trials: &[TrialRow]) -> Markup {
    let Some(first) = trials.iter().find(|trial| trial.purpose == Purpose::Confirm) else { return html! {} };
    let left = frame.x.place(first.number as f64 - 0.5);
    let (top, bottom) = (frame.plot.top, frame.plot.bottom);
    let room = frame.plot.right - left;
    html! {
        rect class="again" x=(at(left)) y=(at(top)) width=(at(room)) height=(at(bottom - top)) {}
        @if room > 90.0 {
            text class="label soft" x=(at(left + 4.0)) y=(at(bottom - FOOT - 4.0)) { "measured again" }
        } @else {
            text class="label soft" x=(at(left - 4.0)) y=(at(bottom - FOOT - 4.0)) text-anchor="end" { "measured again" }
        }
    }
}

/// Stairs: the best holds until something better is found.
fn best(frame: &Frame, trials: &[TrialRow]) -> String {
    let mut path: Vec<String> = Vec::new();
    for trial in trials.iter().filter(|trial| trial.purpose == Purpose::Search) {
        let Some(best) = trial.best else { continue };
        let (x, y) = (at(place(frame, trial)), at(frame.y.place(best)));
        path.push(if path.is_empty() { format!("M{x} {y}") } else { format!("H{x}V{y}") });
    }
    path.concat()
}

fn point(frame: &Frame, report: &Report, trial: &TrialRow) -> Markup {
    let kind = match trial.outcome {
        TrialOutcome::Met if report.is_recommended(trial.candidate) => Kind::Recommended,
        TrialOutcome::Met | TrialOutcome::Missed if report.is_baseline(trial.candidate) => Kind::Running,
        TrialOutcome::Met => Kind::Met,
        TrialOutcome::Missed => Kind::Missed,
        TrialOutcome::Failed => Kind::Failed,
        TrialOutcome::Void | TrialOutcome::Running => return html! {},
    };
    let foot = frame.plot.bottom - FOOT / 2.0;
    let y = trial.objective.map_or(foot, |value| frame.y.place(value));
    html! { g { title { (report.hint(trial)) } (kind.draw(place(frame, trial), y)) } }
}

fn description(report: &Report) -> String {
    let best = report.trials.iter().filter_map(|trial| trial.best).next_back();
    let first = report.trials.iter().find(|trial| trial.best.is_some() && trial.best == best);
    let trials = whole(report.trials.len());
    match (best, first) {
        (Some(best), Some(first)) => format!(
            "{trials} trials. The best objective measured is {}, first reached in trial {}.",
            report.question.unit.show(best),
            first.number
        ),
        _ => format!("{trials} trials. None met every constraint."),
    }
}
