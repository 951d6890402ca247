//! Charts as SVG inside the page: they take their colours from its style sheet, and say in words what they show.
//!
//! All are drawn 360 units wide, so that their letters stay readable on a telephone and do not grow huge on a desk.

mod frame;
mod label;
mod mark;
mod progress;
mod recheck;
mod rows;
mod scale;
mod scatter;
mod shares;
mod steps;

pub use mark::{Kind, legend};
pub use progress::progress;
pub use recheck::recheck;
pub use scatter::{Axis, Line, Point, Scatter, scatter};
pub use shares::shares;
pub use steps::steps;

use maud::{Markup, html};

/// Width of every chart.
const WIDTH: f64 = 360.0;

/// Height of letters.
const LETTER: f64 = 11.0;

/// A coordinate with one decimal, so that files stay small and the same everywhere.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The outer element, with a title and a description for those who do not see it.
fn drawing(id: &str, height: f64, title: &str, description: &str, content: &Markup) -> Markup {
    let view = format!("0 0 {} {}", at(WIDTH), at(height));
    let (title_id, description_id) = (format!("{id}-title"), format!("{id}-text"));
    html! {
        svg viewBox=(view) role="img" aria-labelledby=(format!("{title_id} {description_id}")) {
            title id=(title_id) { (title) }
            desc id=(description_id) { (description) }
            (content)
        }
    }
}
