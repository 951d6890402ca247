//! The few numbers that decide.

use super::Report;
use super::build::headline;
use super::document::{Choice, Question};
use super::grid::{Grid, numbers, words};
use super::quantity::{Unit, change, probability};

/// One number, large.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// It.
    pub value: String,
    /// What it was, or how sure it is.
    pub note: String,
}

/// The same as a table without titles.
pub fn grid(report: &Report) -> Grid {
    let figures = figures(report);
    let columns = [
        words("", figures.iter().map(|figure| figure.name.clone())),
        numbers("", figures.iter().map(|figure| figure.value.clone())),
        words("", figures.iter().map(|figure| figure.note.clone())),
    ];
    Grid::new(columns, figures.iter().map(|_| false))
}

/// Those that are known.
pub fn figures(report: &Report) -> Vec<Figure> {
    let decision = &report.decision;
    let Some(choice) = &decision.recommended else { return Vec::new() };
    let question = &report.question;
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(gain(report));
    figures.extend(metric(question, choice, decision.baseline.as_ref()));
    let costs = |choice: &Choice| choice.cost_per_hour;
    figures.extend(compared("Cost per hour", &question.hourly(), choice, decision.baseline.as_ref(), costs));
    let counted = question.rate().and_then(|rate| question.counted(rate)).unwrap_or("requests");
    let name = format!("Cost per million {counted}");
    let costs = |choice: &Choice| choice.cost_per_million;
    figures.extend(compared(&name, &question.money(), choice, decision.baseline.as_ref(), costs));
    figures.extend(chance(report));
    figures
}

fn gain(report: &Report) -> Option<Figure> {
    let gain = report.decision.gain?;
    if report.decision.recommended.as_ref().is_some_and(|choice| report.is_baseline(choice.candidate)) {
        return None;
    }
    Some(Figure {
        name: capital(report.question.objective.split_once(' ').map_or("objective", |(_, subject)| subject)),
        value: change(headline::effect(&report.question, gain).estimate),
        note: headline::interval(&report.question, gain),
    })
}

/// The objective's metric as measured.
fn metric(question: &Question, choice: &Choice, baseline: Option<&Choice>) -> Option<Figure> {
    let metric = question.metric.as_deref()?;
    let unit = question.unit_of(metric);
    compared(&capital(metric), &unit, choice, baseline, |choice| choice.measured.get(metric).copied())
}

fn compared(
    name: &str,
    unit: &Unit,
    choice: &Choice,
    baseline: Option<&Choice>,
    value: impl Fn(&Choice) -> Option<f64>,
) -> Option<Figure> {
    let now = baseline.filter(|baseline| baseline.candidate != choice.candidate).and_then(&value);
    let note = now.map(|now| format!("now {}", unit.show(now))).unwrap_or_default();
    Some(Figure { name: name.to_owned(), value: unit.show(value(choice)?), note })
}

fn chance(report: &Report) -> Option<Figure> {
    let chance = report.decision.probability.filter(|_| !report.question.constraints.is_empty())?;
    Some(Figure {
        name: "Chance of being fit".to_owned(),
        value: probability(chance),
        note: "that it runs and every constraint holds".to_owned(),
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
