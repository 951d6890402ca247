//! Candidates as points over two measures.

use maud::{Markup, html};

pub use super::frame::Axis;
use super::frame::Frame;
use super::label::{self, Area, Wanted};
use super::mark::Kind;
use super::{LETTER, at, drawing};

const HEIGHT: f64 = 280.0;

/// A chart of points.
pub struct Scatter<'a> {
    /// Unique in the page.
    pub id: &'a str,
    /// In a few words.
    pub title: &'a str,
    /// What it shows, in words.
    pub description: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// The points.
    pub points: Vec<Point>,
    /// Limits.
    pub lines: Vec<Line>,
}

/// One candidate.
pub struct Point {
    /// Value.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// What it stands for.
    pub kind: Kind,
    /// Beside it, if there is room.
    pub label: Option<String>,
    /// Shown when pointed at.
    pub hint: String,
}

/// A limit across the chart.
pub enum Line {
    /// At this value of the horizontal axis.
    At(f64),
    /// At this value of the vertical axis.
    Level(f64),
}

impl Line {
    /// What it covers.
    fn area(&self, frame: &Frame) -> Area {
        match self {
            Self::At(value) => {
                let place = frame.x.place(*value);
                Area { left: place - 1.0, right: place + 1.0, ..frame.plot }
            }
            Self::Level(value) => {
                let place = frame.y.place(*value);
                Area { top: place - 1.0, bottom: place + 1.0, ..frame.plot }
            }
        }
    }
}

/// Draws it.
pub fn scatter(chart: &Scatter) -> Markup {
    let limits = |wanted: fn(&Line) -> Option<f64>| chart.lines.iter().filter_map(wanted);
    let xs = chart.points.iter().map(|point| point.x);
    let xs: Vec<f64> = xs.chain(limits(|line| if let Line::At(value) = line { Some(*value) } else { None })).collect();
    let ys = chart.points.iter().map(|point| point.y);
    let ys: Vec<f64> =
        ys.chain(limits(|line| if let Line::Level(value) = line { Some(*value) } else { None })).collect();
    let frame = Frame::new(HEIGHT, (&chart.x, &xs), (&chart.y, &ys));
    let content = html! {
        (frame.draw())
        @for line in &chart.lines { (limit(&frame, line)) }
        (points(&frame, &chart.points))
        (labels(&frame, chart))
    };
    drawing(chart.id, HEIGHT, chart.title, &chart.description, &content)
}

fn limit(frame: &Frame, line: &Line) -> Markup {
    let plot = frame.plot;
    let path = match line {
        Line::At(value) => format!("M{} {}V{}", at(frame.x.place(*value)), at(plot.top), at(plot.bottom)),
        Line::Level(value) => format!("M{} {}H{}", at(plot.left), at(frame.y.place(*value)), at(plot.right)),
    };
    html! { path class="limit" d=(path) {} }
}

/// The most important on top.
fn points(frame: &Frame, points: &[Point]) -> Markup {
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by_key(|point| std::cmp::Reverse(point.kind));
    html! {
        @for point in order {
            g { title { (point.hint) } (point.kind.draw(frame.x.place(point.x), frame.y.place(point.y))) }
        }
    }
}

fn labels(frame: &Frame, chart: &Scatter) -> Markup {
    let mut wanted: Vec<(Kind, Wanted)> = Vec::new();
    for point in &chart.points {
        let Some(text) = &point.label else { continue };
        let (x, y) = (frame.x.place(point.x), frame.y.place(point.y));
        wanted.push((point.kind, Wanted { text: text.clone(), x, y }));
    }
    wanted.sort_by_key(|(kind, _)| *kind);
    let wanted: Vec<Wanted> = wanted.into_iter().map(|(_, wanted)| wanted).collect();
    let signs = chart.points.iter().map(|point| Area::sign(frame.x.place(point.x), frame.y.place(point.y)));
    let taken: Vec<Area> = signs.chain(chart.lines.iter().map(|line| line.area(frame))).collect();
    html! {
        @for label in label::place(&wanted, &taken, frame.plot, LETTER) {
            text class="label" x=(at(label.x)) y=(at(label.y)) { (label.text) }
        }
    }
}
