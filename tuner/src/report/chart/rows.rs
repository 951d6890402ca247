//! Charts of one row a thing: each with its words above it, so that long names have room on a narrow screen.

use maud::{Markup, html};

use super::frame::{Axis, apart, ticks};
use super::scale::Scale;
use super::{LETTER, WIDTH, at};
use crate::report::visible::{one_line, shortened};

/// Letters that fit into a row's width.
const LETTERS: usize = 52;

/// Words above a row.
pub fn heading(y: f64, text: &str, value: &str) -> Markup {
    let room = LETTERS.saturating_sub(value.chars().count() + 2);
    html! {
        text class="row" x="0" y=(at(y)) { (shortened(&one_line(text), room)) }
        text class="row value" x=(at(WIDTH)) y=(at(y)) text-anchor="end" { (value) }
    }
}

/// Numbers below the last row.
pub fn foot(scale: &Scale, axis: &Axis, top: f64, bottom: f64) -> Markup {
    let (ticks, title) = ticks(scale, axis);
    html! {
        g class="axis" {
            @for (place, text) in apart(&ticks, WIDTH - 8.0) {
                line class="grid" x1=(at(place)) x2=(at(place)) y1=(at(top)) y2=(at(bottom)) {}
                text x=(at(place)) y=(at(bottom + 13.0)) text-anchor="middle" { (text) }
            }
            text class="name" x=(at(WIDTH)) y=(at(bottom + 13.0 + LETTER + 4.0)) text-anchor="end" { (title) }
        }
    }
}
