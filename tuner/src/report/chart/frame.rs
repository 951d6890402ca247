//! The two axes of a chart: grid, ticks, titles.

use maud::{Markup, html};

use super::label::{Area, width};
use super::scale::Scale;
use super::{LETTER, WIDTH, at};
use crate::report::quantity::{Unit, significant};
use crate::report::visible::shortened;

/// Room above the plot for the title of the vertical axis.
const ABOVE: f64 = 24.0;

/// Room below the plot for numbers and the title of the horizontal axis.
const BELOW: f64 = 36.0;

/// Room at the right.
const BESIDE: f64 = 8.0;

/// An axis to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub title: String,
    /// In what.
    pub unit: Unit,
    /// Only whole numbers mean something.
    pub whole: bool,
}

impl Axis {
    /// Of any numbers.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, whole: false }
    }
}

/// Axes with their scales.
pub struct Frame {
    /// Where points may be.
    pub plot: Area,
    /// Horizontal.
    pub x: Scale,
    /// Vertical.
    pub y: Scale,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    x_title: String,
    y_title: String,
    height: f64,
}

impl Frame {
    /// Room for these values in a chart of this height.
    pub fn new(height: f64, x: (&Axis, &[f64]), y: (&Axis, &[f64])) -> Self {
        let (top, bottom) = (ABOVE, height - BELOW);
        let y_scale = Scale::over(y.1.iter().copied(), bottom, top);
        let (y_ticks, y_title) = ticks(&y_scale, y.0);
        let widest = y_ticks.iter().map(|(_, text)| width(text, LETTER)).fold(0.0, f64::max);
        let plot = Area { left: widest + 8.0, top, right: WIDTH - BESIDE, bottom };
        let x_scale = Scale::over(x.1.iter().copied(), plot.left, plot.right);
        let (x_ticks, x_title) = ticks(&x_scale, x.0);
        Self { plot, x: x_scale, y: y_scale, x_ticks, y_ticks, x_title, y_title, height }
    }

    /// Grid, ticks and titles.
    pub fn draw(&self) -> Markup {
        let Area { left, right, bottom, .. } = self.plot;
        let most = |room: f64| (room / (LETTER * 0.55)).max(4.0).floor();
        let fits = |title: &str, room: f64| shortened(title, whole(most(room)));
        html! {
            g class="axis" {
                @for (place, text) in &self.y_ticks {
                    line class="grid" x1=(at(left)) x2=(at(right)) y1=(at(*place)) y2=(at(*place)) {}
                    text x=(at(left - 5.0)) y=(at(place + LETTER * 0.35)) text-anchor="end" { (text) }
                }
                line class="base" x1=(at(left)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
                @for (place, text) in apart(&self.x_ticks, right) {
                    line class="base" x1=(at(place)) x2=(at(place)) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
                    text x=(at(place)) y=(at(bottom + 15.0)) text-anchor="middle" { (text) }
                }
                text class="name" x="0" y=(at(LETTER)) { (fits(&self.y_title, WIDTH)) }
                text class="name" x=(at(right)) y=(at(self.height - 4.0)) text-anchor="end" { (fits(&self.x_title, WIDTH)) }
            }
        }
    }
}

/// From a length in letters.
fn whole(value: f64) -> usize {
    (0..400).take_while(|count| f64::from(*count) < value).count()
}

/// Places with their numbers, and the title with the unit in which they are.
pub(super) fn ticks(scale: &Scale, axis: &Axis) -> (Vec<(f64, String)>, String) {
    let (factor, word) = axis.unit.scaled(scale.high());
    let mut values = scale.ticks();
    values.retain(|value| !axis.whole || value.fract().abs() < 1e-9);
    let numbers =
        |digits: i32| -> Vec<String> { values.iter().map(|value| significant(value * factor, digits)).collect() };
    let differ = |texts: &[String]| texts.windows(2).all(|pair| pair[0] != pair[1]);
    let texts = (3..=8).map(numbers).find(|texts| differ(texts)).unwrap_or_else(|| numbers(8));
    let places = values.iter().map(|value| scale.place(*value));
    (places.zip(texts).collect(), titled(&axis.title, word))
}

fn titled(title: &str, word: &str) -> String {
    if word.is_empty() || title.ends_with(word) { title.to_owned() } else { format!("{title}, {word}") }
}

/// Ticks whose numbers do not touch.
pub(super) fn apart(ticks: &[(f64, String)], right: f64) -> Vec<(f64, &str)> {
    let mut free_from = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for (place, text) in ticks {
        let half = width(text, LETTER) / 2.0;
        if place - half > free_from && place + half <= right + BESIDE {
            kept.push((*place, text.as_str()));
            free_from = place + half + 4.0;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ticks_have_different_numbers() {
        let scale = Scale::over([1001.0, 1004.0], 0.0, 100.0);
        let (ticks, title) = ticks(&scale, &Axis::new("rate", Unit::new("requests/s")));
        assert!(ticks.windows(2).all(|pair| pair[0].1 != pair[1].1), "{ticks:?}");
        assert_eq!(title, "rate, requests/s");
    }

    #[test]
    fn numbers_below_the_chart_do_not_touch() {
        let ticks: Vec<(f64, String)> = (0..12).map(|index| (f64::from(index) * 20.0, "100 000".to_owned())).collect();
        let kept = apart(&ticks, 300.0);
        assert!(kept.windows(2).all(|pair| pair[1].0 - pair[0].0 >= width("100 000", LETTER)), "{kept:?}");
    }
}
