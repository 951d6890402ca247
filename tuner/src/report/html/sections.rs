//! Everything after the first screen.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::grid::table;
use super::tradeoff::tradeoff;
use crate::report::chart::{Kind, legend, progress, recheck, shares, steps};
use crate::report::document::{Interval, Step, TrialOutcome};
use crate::report::grids::Room;
use crate::report::quantity::whole;
use crate::report::{Report, grids};

/// All of it, in the order in which questions come up.
pub fn sections(report: &Report) -> Markup {
    html! {
        (rechecks(report))
        (front(report))
        div class="pair" { (convergence(report)) (importance(report)) }
        (sensitivity(report))
        (trials(report))
        (provenance(report))
    }
}

fn rechecks(report: &Report) -> Markup {
    if report.rechecks.is_empty() {
        return html! {};
    }
    let title = "Line: in the search; sign: measured again";
    html! {
        section {
            h2 { "Measured again" }
            p {
                "The best of many noisy numbers is flattered by chance, so the best were measured once more, for longer."
                @if report.rechecks.iter().any(|found| report.is_baseline(found.candidate)) {
                    " So was what runs now: the gain is over all its numbers."
                }
            }
            div class="beside" {
                figure { figcaption { (title) } (recheck(report, title)) }
                (table(&grids::rechecks(report, Room::Wide), "Measured again"))
            }
        }
    }
}

fn front(report: &Report) -> Markup {
    let charts = tradeoff(report);
    let candidates: BTreeSet<usize> =
        report.trials.iter().filter(|trial| trial.objective.is_some()).map(|trial| trial.candidate).collect();
    if charts.is_empty() || candidates.len() < 2 {
        return html! {};
    }
    html! {
        section {
            h2 { "What could be had instead" }
            p {
                "Every measurement. Numbers name the trials on the Pareto front, which the table lists: no other candidate "
                "beats those in cost, objective and every limited metric at once."
            }
            div class="charts" { @for chart in charts { (chart) } }
            (table(&grids::front(report, Room::Wide), "Pareto front"))
        }
    }
}

fn convergence(report: &Report) -> Markup {
    if report.trials.iter().filter(|trial| trial.objective.is_some()).count() < 2 {
        return html! {};
    }
    let title = "Best so far";
    let mut kinds: Vec<Kind> = Vec::new();
    for trial in &report.trials {
        kinds.extend(match trial.outcome {
            TrialOutcome::Met if report.is_recommended(trial.candidate) => Some(Kind::Recommended),
            TrialOutcome::Met | TrialOutcome::Missed if report.is_baseline(trial.candidate) => Some(Kind::Running),
            TrialOutcome::Met => Some(Kind::Met),
            TrialOutcome::Missed => Some(Kind::Missed),
            TrialOutcome::Failed => Some(Kind::Failed),
            TrialOutcome::Void | TrialOutcome::Running => None,
        });
    }
    let lines = [("best", "best that meets the constraints")];
    html! {
        section {
            h2 { "How fast it was found" }
            @if let Some(end) = &report.question.end { p { "The search ended because " (end) "." } }
            figure { figcaption { (title) } (progress(report, title)) (legend(&kinds, &lines)) }
        }
    }
}

fn importance(report: &Report) -> Markup {
    if report.importance.is_empty() {
        return html! {};
    }
    let title = "Share of all differences between candidates";
    html! {
        section {
            h2 { "What matters" }
            p {
                "How much of what the model expects to differ between all " (whole(report.question.candidates))
                " candidates each parameter explains: by itself, and in combination with others (functional analysis of "
                "variance). It is the model's view, sharpest where trials were made."
            }
            figure {
                figcaption { (title) }
                (shares(&report.importance, title))
                p class="legend" {
                    span { i class="key alone" {} "by itself" }
                    span { i class="key together" {} "only with others" }
                }
            }
        }
    }
}

fn sensitivity(report: &Report) -> Markup {
    let Some(choice) = &report.decision.recommended else { return html! {} };
    let Some(objective) = choice.objective.filter(|_| !report.sensitivity.is_empty()) else { return html! {} };
    let interval = |found: Interval| [found.low, found.estimate, found.high];
    let steps_of = |name: &str| report.sensitivity.iter().any(|step: &Step| step.parameter == name);
    let all: Vec<f64> =
        report.sensitivity.iter().map(|step| step.objective).chain([objective]).flat_map(interval).collect();
    let parameters = report.question.parameters.iter().zip(&choice.settings).enumerate();
    html! {
        section {
            h2 { "Around the recommendation" }
            p {
                "What the objective" @if !report.question.unit.0.is_empty() { " (" (report.question.unit.0) ")" }
                " becomes when one parameter changes and the rest stays as recommended, with the model's 95 % interval. "
                "Hollow: less likely than not to run and meet every constraint."
            }
            div class="charts" {
                @for (index, (name, own)) in parameters.filter(|(_, (name, _))| steps_of(name)) {
                    figure { figcaption { (name) } (steps(report, index, (name, own), objective, &all)) }
                }
            }
            details {
                summary { "The same as a table" }
                (table(&grids::sensitivity(report), "Around the recommendation"))
            }
        }
    }
}

fn trials(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Every trial" }
            @if report.trials.is_empty() { p { "No trial has begun." } }
            (table(&grids::trials(report, Room::Wide), "Every trial"))
        }
    }
}

fn provenance(report: &Report) -> Markup {
    html! {
        section {
            h2 id="measured" { "How it was measured" }
            div class="facts" {
                @for group in &report.provenance {
                    div {
                        h3 { (group.title) }
                        dl { @for (name, value) in &group.facts { div { dt { (name) } dd { (value) } } } }
                    }
                }
            }
        }
    }
}
