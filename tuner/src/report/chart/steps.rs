//! What the objective becomes when one parameter changes and the rest stays as recommended.

use maud::{Markup, html};

use super::frame::{Axis, apart, ticks};
use super::label::width;
use super::mark::Kind;
use super::scale::Scale;
use super::{LETTER, WIDTH, at, drawing};
use crate::report::Report;
use crate::report::document::{Interval, Step};
use crate::report::quantity::probability;
use crate::report::visible::{one_line, shortened};

/// Height of one row.
const ROW: f64 = 19.0;

/// A value that is less likely to meet every constraint is drawn hollow.
const LIKELY: f64 = 0.5;

/// Letters of a value at most.
const LETTERS: usize = 14;

struct Row<'a> {
    level: &'a str,
    objective: Interval,
    kind: Kind,
    hint: String,
}

/// One parameter, with its recommended value and what that gives. `all` are the values of all parameters, so that their charts can be compared.
pub fn steps(report: &Report, index: usize, own: (&str, &str), objective: Interval, all: &[f64]) -> Markup {
    let (parameter, level) = own;
    let rows = rows(report, index, parameter, (level, objective));
    let left = left(report);
    let scale = Scale::over(all.iter().copied(), left, WIDTH - 12.0);
    let bottom = ROW * rows.len() as f64;
    let axis = Axis::new("", report.question.unit.clone());
    let (ticks, _) = ticks(&scale, &axis);
    let reference = at(scale.place(objective.estimate));
    let content = html! {
        g class="axis" {
            @for (place, text) in apart(&ticks, WIDTH - 8.0) {
                line class="grid" x1=(at(place)) x2=(at(place)) y1="0" y2=(at(bottom)) {}
                text x=(at(place)) y=(at(bottom + 13.0)) text-anchor="middle" { (text) }
            }
        }
        path class="reference" d=(format!("M{reference} 0V{}", at(bottom))) {}
        @for (row_index, row) in rows.iter().enumerate() {
            (draw(&scale, row, ROW * (row_index as f64 + 0.5), left))
        }
    };
    let title = format!("{} around the recommendation", one_line(parameter));
    drawing(&format!("step-{index}"), bottom + 17.0, &title, &description(report, &rows), &content)
}

/// The same for every parameter, so that their axes begin at the same place.
fn left(report: &Report) -> f64 {
    let own = report.decision.recommended.iter().flat_map(|choice| &choice.settings);
    let levels = report.sensitivity.iter().map(|step| &step.level).chain(own);
    levels.map(|level| width(&shortened(level, LETTERS), LETTER)).fold(24.0, f64::max) + 10.0
}

/// The recommended value among the others, in the parameter's own order.
fn rows<'a>(report: &'a Report, index: usize, parameter: &str, own: (&'a str, Interval)) -> Vec<Row<'a>> {
    let levels = report.question.levels.get(index);
    let place = |level: &str| levels.and_then(|levels| levels.iter().position(|other| other == level));
    let mut rows =
        vec![Row { level: own.0, objective: own.1, kind: Kind::Recommended, hint: format!("{}: recommended", own.0) }];
    rows.extend(report.sensitivity.iter().filter(|step| step.parameter == parameter).map(|step| other(report, step)));
    rows.sort_by_key(|row| place(row.level));
    rows
}

fn other<'a>(report: &Report, step: &'a Step) -> Row<'a> {
    let kind = if step.probability >= LIKELY { Kind::Met } else { Kind::Missed };
    let value = report.question.unit.show(step.objective.estimate);
    let hint = format!("{}: {value} expected, {} to be fit", step.level, probability(step.probability));
    Row { level: &step.level, objective: step.objective, kind, hint }
}

fn draw(scale: &Scale, row: &Row, y: f64, left: f64) -> Markup {
    let (low, high) = (scale.place(row.objective.low), scale.place(row.objective.high));
    html! {
        g {
            title { (row.hint) }
            text class="row" x=(at(left - 10.0)) y=(at(y + LETTER * 0.35)) text-anchor="end" {
                (shortened(&one_line(row.level), LETTERS))
            }
            path class="interval" d=(format!("M{} {}H{}", at(low), at(y), at(high))) {}
            (row.kind.draw(scale.place(row.objective.estimate), y))
        }
    }
}

fn description(report: &Report, rows: &[Row]) -> String {
    let unit = &report.question.unit;
    let each = rows.iter().map(|row| format!("{}: {}", row.level, unit.show(row.objective.estimate)));
    format!("{}.", each.collect::<Vec<_>>().join("; "))
}
