//! What the search measured and what the longer measurements say, for each candidate that was measured again.

use maud::{Markup, html};

use super::frame::Axis;
use super::mark::Kind;
use super::rows::{foot, heading};
use super::scale::Scale;
use super::{WIDTH, at, drawing};
use crate::report::Report;
use crate::report::document::Recheck;

/// Height of one row.
const ROW: f64 = 36.0;

/// Draws it.
pub fn recheck(report: &Report, title: &str) -> Markup {
    let values = report.rechecks.iter().flat_map(|row| row.search.into_iter().chain(row.again.iter().copied()));
    let scale = Scale::over(values, 8.0, WIDTH - 8.0);
    let bottom = ROW * report.rechecks.len() as f64;
    let axis = Axis::new("objective", report.question.unit.clone());
    let content = html! {
        (foot(&scale, &axis, 0.0, bottom))
        @for (index, row) in report.rechecks.iter().enumerate() {
            (draw(report, &scale, row, ROW * index as f64))
        }
    };
    drawing("recheck", bottom + 32.0, title, &description(report), &content)
}

fn draw(report: &Report, scale: &Scale, row: &Recheck, top: f64) -> Markup {
    let y = top + 25.0;
    let values: Vec<f64> =
        row.search.into_iter().chain(row.again.iter().copied()).map(|value| scale.place(value)).collect();
    let (low, high) = (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let difference = row.difference().map_or(String::new(), crate::report::quantity::change);
    html! {
        (heading(top + 12.0, &report.label(&row.settings), &difference))
        @if low < high { path class="interval" d=(format!("M{} {}H{}", at(low), at(y), at(high))) {} }
        @if let Some(search) = row.search {
            path class="search" d=(format!("M{} {}v10", at(scale.place(search)), at(y - 5.0))) {}
        }
        @for (value, met) in row.again.iter().zip(&row.met) { (kind(row, *met).draw(scale.place(*value), y)) }
    }
}

fn kind(row: &Recheck, met: bool) -> Kind {
    match (row.recommended, met) {
        (true, true) => Kind::Recommended,
        (false, true) => Kind::Met,
        (_, false) => Kind::Missed,
    }
}

fn description(report: &Report) -> String {
    let unit = &report.question.unit;
    let each = report.rechecks.iter().map(|row| {
        let search = row.search.map_or("not measured".to_owned(), |value| unit.show(value));
        let again: Vec<String> = row.again.iter().map(|value| unit.show(*value)).collect();
        format!("{}: {search} in the search, then {}", report.label(&row.settings), again.join(", "))
    });
    format!("{}.", each.collect::<Vec<_>>().join("; "))
}
