//! Measured candidates: what they do against what they cost, and against what is limited.

use maud::{Markup, html};

use crate::report::Report;
use crate::report::chart::{Axis, Kind, Line, Point, Scatter, legend, scatter};
use crate::report::document::{Limit, TrialOutcome, TrialRow};

/// Cost, then the first constraints: more pictures would say little more.
const CHARTS: usize = 3;

/// The charts; empty when there is nothing to weigh.
pub fn tradeoff(report: &Report) -> Vec<Markup> {
    let Some(metric) = report.question.metric.as_deref() else { return by_cost_alone(report) };
    let mut charts = Vec::new();
    if report.question.cost.is_some() {
        let x = Axis::new("cost per hour", report.question.hourly());
        let about = About { id: "by-cost", title: format!("{metric} against cost"), x, y: metric, limits: Vec::new() };
        charts.extend(chart(report, about, |trial| trial.cost_per_hour, |trial| trial.metrics.get(metric).copied()));
    }
    for (index, (limited, limit)) in report.question.constraints.iter().enumerate() {
        if limited == metric || charts.len() >= CHARTS {
            continue;
        }
        let about = against(report, ["by-limit-0", "by-limit-1", "by-limit-2"].get(index), metric, limited, *limit);
        let Some(about) = about else { continue };
        let x = |trial: &TrialRow| trial.metrics.get(limited).copied();
        charts.extend(chart(report, about, x, |trial| trial.metrics.get(metric).copied()));
    }
    charts
}

/// Where the cost is the objective: every limited metric against it.
fn by_cost_alone(report: &Report) -> Vec<Markup> {
    if report.question.cost.is_none() {
        return Vec::new();
    }
    let ids = ["by-limit-0", "by-limit-1", "by-limit-2"];
    let each = report.question.constraints.iter().zip(ids).filter_map(|((limited, limit), id)| {
        let x = Axis::new("cost per hour", report.question.hourly());
        let limits = vec![Line::Level(limit.value())];
        let about = About { id, title: format!("{limited} against cost"), x, y: limited, limits };
        chart(report, about, |trial| trial.cost_per_hour, |trial| trial.metrics.get(limited).copied())
    });
    each.collect()
}

struct About<'a> {
    id: &'a str,
    title: String,
    x: Axis,
    y: &'a str,
    limits: Vec<Line>,
}

fn against<'a>(
    report: &Report,
    id: Option<&&'a str>,
    metric: &'a str,
    limited: &str,
    limit: Limit,
) -> Option<About<'a>> {
    let x = Axis::new(limited, report.question.unit_of(limited));
    let title = format!("{metric} against {limited}");
    id.map(|id| About { id, title, x, y: metric, limits: vec![Line::At(limit.value())] })
}

fn chart(
    report: &Report,
    about: About,
    x: impl Fn(&TrialRow) -> Option<f64>,
    y: impl Fn(&TrialRow) -> Option<f64>,
) -> Option<Markup> {
    let mut labelled: Vec<usize> = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    for trial in &report.trials {
        let (Some(x), Some(y), Some(kind)) = (x(trial), y(trial), kind(report, trial)) else { continue };
        let first = !labelled.contains(&trial.candidate);
        labelled.push(trial.candidate);
        let front = report.front.iter().any(|choice| choice.candidate == trial.candidate);
        let label = label(kind, trial, first, front);
        points.push(Point { x, y, kind, label, hint: report.hint(trial) });
    }
    let spread = points.iter().any(|point| point.x.total_cmp(&points[0].x).is_ne());
    if !spread && points.len() != 1 {
        return None;
    }
    let kinds: Vec<Kind> = points.iter().map(|point| point.kind).collect();
    let mut lines = Vec::new();
    if !about.limits.is_empty() {
        lines.push(("limit", "limit"));
    }
    let unit = report.question.unit_of(about.y);
    let drawn = Scatter {
        id: about.id,
        title: &about.title,
        description: format!("{} measurements; the tables below have their numbers.", points.len()),
        x: about.x,
        y: Axis::new(about.y, unit),
        points,
        lines: about.limits,
    };
    Some(html! {
        figure { figcaption { (about.title) } (scatter(&drawn)) (legend(&kinds, &lines)) }
    })
}

fn kind(report: &Report, trial: &TrialRow) -> Option<Kind> {
    match trial.outcome {
        TrialOutcome::Met | TrialOutcome::Missed if report.is_recommended(trial.candidate) => Some(Kind::Recommended),
        TrialOutcome::Met | TrialOutcome::Missed if report.is_baseline(trial.candidate) => Some(Kind::Running),
        TrialOutcome::Met => Some(Kind::Met),
        TrialOutcome::Missed => Some(Kind::Missed),
        TrialOutcome::Failed | TrialOutcome::Void | TrialOutcome::Running => None,
    }
}

/// Names the front's points by their trials; the others would only hide each other.
fn label(kind: Kind, trial: &TrialRow, first: bool, front: bool) -> Option<String> {
    match kind {
        Kind::Recommended if first => Some("recommended".to_owned()),
        Kind::Running if first => Some("now".to_owned()),
        Kind::Met if first && front => Some(trial.number.to_string()),
        Kind::Recommended | Kind::Running | Kind::Met | Kind::Missed | Kind::Failed => None,
    }
}
