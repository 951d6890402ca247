//! How much each parameter explains: by itself, and together with others.

use maud::{Markup, html};

use super::rows::heading;
use super::{WIDTH, at, drawing};
use crate::report::document::Importance;

/// Height of one row.
const ROW: f64 = 32.0;

/// Draws them in the order given.
pub fn shares(importance: &[Importance], title: &str) -> Markup {
    let height = ROW * importance.len() as f64 + 2.0;
    let bar = |share: f64| at(share.clamp(0.0, 1.0) * WIDTH);
    let content = html! {
        @for (index, row) in importance.iter().enumerate() {
            @let top = ROW * index as f64;
            (heading(top + 12.0, &row.parameter, &percent(row)))
            rect class="track" x="0" y=(at(top + 17.0)) width=(at(WIDTH)) height="8" {}
            rect class="together" x="0" y=(at(top + 17.0)) width=(bar(row.total)) height="8" {}
            rect class="alone" x="0" y=(at(top + 17.0)) width=(bar(row.alone)) height="8" {}
        }
    };
    drawing("importance", height, title, &description(importance), &content)
}

fn percent(row: &Importance) -> String {
    format!("{:.0} %", row.total * 100.0)
}

fn description(importance: &[Importance]) -> String {
    let each = importance
        .iter()
        .map(|row| format!("{}: {:.0} % by itself, {} with others", row.parameter, row.alone * 100.0, percent(row)));
    format!("{}.", each.collect::<Vec<_>>().join("; "))
}
