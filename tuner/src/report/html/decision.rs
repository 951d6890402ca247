//! The first screen: what to do, what it brings, how to do it, when to doubt it.

use maud::{Markup, html};

use super::grid::table;
use super::unbroken::unbroken;
use crate::report::document::{Recipe, Verdict, Weight};
use crate::report::figures::{Figure, figures};
use crate::report::{Report, grids};

/// All of it.
pub fn decision(report: &Report) -> Markup {
    let decision = &report.decision;
    html! {
        section class="decision" aria-labelledby="decision" {
            p class={ "verdict " (class(decision.verdict)) } { (word(decision.verdict)) }
            h1 id="decision" { (unbroken(&decision.headline)) }
            p class="lead" { (unbroken(&decision.reason)) }
            @let figures = figures(report);
            @if !figures.is_empty() { dl class="figures" { @for found in &figures { (figure(found)) } } }
            div class="columns" {
                div { (changes(report)) (constraints(report)) (cautions(report)) }
                div { (recipes(report)) }
            }
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Change => "Change",
        Verdict::Unsure => "Change with care",
        Verdict::Unclear => "No clear gain",
        Verdict::Keep => "Keep",
        Verdict::Pick => "Recommended",
        Verdict::Infeasible => "Nothing is good enough",
        Verdict::Failed => "Nothing ran",
        Verdict::Nothing => "Nothing yet",
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Change | Verdict::Keep | Verdict::Pick => "good",
        Verdict::Unsure | Verdict::Unclear | Verdict::Infeasible | Verdict::Failed | Verdict::Nothing => "doubt",
    }
}

fn figure(figure: &Figure) -> Markup {
    html! {
        div {
            dt { (figure.name) }
            dd class="large" { (figure.value) }
            @if !figure.note.is_empty() { dd class="soft" { (figure.note) } }
        }
    }
}

fn changes(report: &Report) -> Markup {
    if report.decision.changes.is_empty() {
        return html! {};
    }
    html! {
        @let changes = grids::changes(report);
        h2 { @if changes.rows.is_empty() { "What to keep" } @else { "What to change" } }
        (table(&changes, "What to change"))
        @if let Some(same) = grids::unchanged(report) { p class="soft" { "Stays as it is: " (same) "." } }
    }
}

fn constraints(report: &Report) -> Markup {
    let grid = grids::constraints(report);
    if grid.rows.is_empty() {
        return html! {};
    }
    html! { h2 { "Constraints" } (table(&grid, "Constraints")) }
}

fn recipes(report: &Report) -> Markup {
    // What undoes it stands before what may be long.
    let (first, rest) = report.decision.apply.split_at(report.decision.apply.len().min(1));
    html! {
        @if !first.is_empty() { h2 { "To apply it" } @for found in first { (recipe(found)) } }
        @if !report.decision.undo.is_empty() {
            h2 { "To undo it" }
            @for found in &report.decision.undo { (recipe(found)) }
        }
        @if !rest.is_empty() { h2 { "What it changes" } @for found in rest { (recipe(found)) } }
    }
}

fn recipe(recipe: &Recipe) -> Markup {
    html! {
        figure class="recipe" {
            figcaption class="soft" { (recipe.title) }
            pre tabindex="0" { code { (recipe.text) } }
        }
    }
}

fn cautions(report: &Report) -> Markup {
    html! {
        h2 { "When not to trust this" }
        ul class="cautions" {
            @for caution in &report.cautions {
                @let (class, word) = weight(caution.weight);
                li class=(class) { b { (word) } " " (unbroken(&caution.text)) }
            }
            li class="note" {
                b { "Note" } " It holds for the load and the machine named under "
                a href="#measured" { "How it was measured" } "."
            }
        }
    }
}

fn weight(weight: Weight) -> (&'static str, &'static str) {
    match weight {
        Weight::Grave => ("grave", "Serious"),
        Weight::Care => ("care", "Care"),
        Weight::Note => ("note", "Note"),
    }
}
