//! The tables of a report.

use super::Report;
use super::document::{Change, Choice, Promise, Purpose, TrialOutcome, TrialRow};
use super::grid::{Filled, Grid, measures, numbers, words};
use super::quantity::{change, duration, probability, significant};

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A page: everything.
    Wide,
    /// A terminal: what matters most.
    Narrow,
}

impl Room {
    /// With more parameters than this, their values share one column.
    fn parameters(self) -> usize {
        match self {
            Self::Wide => super::document::FEW_PARAMETERS,
            Self::Narrow => 4,
        }
    }
}

/// What to change; parameters that stay are left out.
pub fn changes(report: &Report) -> Grid {
    let changed: Vec<&Change> =
        report.decision.changes.iter().filter(|change| change.from.as_ref() != Some(&change.to)).collect();
    let columns = [
        words("parameter", changed.iter().map(|change| change.parameter.clone())),
        words("now", changed.iter().map(|change| change.from.clone().unwrap_or_default())),
        words("recommended", changed.iter().map(|change| change.to.clone())),
    ];
    Grid::new(columns, changed.iter().map(|_| true))
}

/// Parameters that stay as they are, in one line.
pub fn unchanged(report: &Report) -> Option<String> {
    let same = report.decision.changes.iter().filter(|change| change.from.as_ref() == Some(&change.to));
    let same: Vec<String> = same.map(|change| format!("{} {}", change.parameter, change.to)).collect();
    (!same.is_empty()).then(|| same.join(", "))
}

/// Each constraint; without a recommendation, how near any candidate came.
pub fn constraints(report: &Report) -> Grid {
    let promises = &report.decision.constraints;
    let apart = promises.iter().all(|promise| promise.ever_met == Some(true));
    let decided = report.decision.recommended.is_some();
    let (measured, sure) = if decided { ("measured", "chance") } else { ("nearest", "beyond the limit") };
    let show = |promise: &Promise| promise.measured.map(|value| report.question.show(&promise.metric, value));
    let columns = [
        words("constraint", promises.iter().map(|promise| report.question.limit(&promise.metric, promise.limit))),
        numbers(measured, promises.iter().map(|promise| show(promise).unwrap_or_default())),
        numbers(sure, promises.iter().map(|promise| surety(promise, apart))),
    ];
    Grid::new(columns, promises.iter().map(|_| false))
}

/// `apart`: each limit was kept by some candidate, and all by none.
fn surety(promise: &Promise, apart: bool) -> String {
    match (promise.probability, promise.certified, promise.ever_met) {
        (Some(chance), ..) => probability(chance),
        (None, Some(true), _) => "certified".to_owned(),
        (None, Some(false), _) => "not certified".to_owned(),
        (None, None, Some(true)) if !apart => "met".to_owned(),
        (None, None, Some(true)) => "met, but not with the others".to_owned(),
        (None, None, Some(false)) => {
            let excess = promise.measured.and_then(|value| promise.limit.excess(value));
            excess.map_or_else(|| "missed".to_owned(), |share| format!("{} %", significant(share * 100.0, 2)))
        }
        (None, None, None) => String::new(),
    }
}

/// Values of each parameter, in columns of their own where there are few.
fn settings<'a>(report: &Report, room: Room, rows: impl Iterator<Item = &'a Vec<String>> + Clone) -> Vec<Filled> {
    let parameters = &report.question.parameters;
    if parameters.len() > room.parameters() {
        return vec![words("settings", rows.map(|row| report.label(row)))];
    }
    let column = |(index, name): (usize, &String)| {
        let cells: Vec<String> = rows.clone().map(|row| row.get(index).cloned().unwrap_or_default()).collect();
        let all_numbers = cells.iter().all(|cell| cell.parse::<f64>().is_ok());
        if all_numbers { numbers(name, cells) } else { words(name, cells) }
    };
    parameters.iter().enumerate().map(column).collect()
}

/// Longer measurements beside the search.
pub fn rechecks(report: &Report, room: Room) -> Grid {
    let rows = &report.rechecks;
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let again = |values: &Vec<f64>| (!values.is_empty()).then(|| mean(values));
    let unit = &report.question.unit;
    let mut columns = settings(report, room, rows.iter().map(|row| &row.settings));
    columns.push(measures("in the search", unit, rows.iter().map(|row| row.search)));
    columns.push(measures("again", unit, rows.iter().map(|row| again(&row.again))));
    columns.push(numbers("difference", rows.iter().map(|row| row.difference().map(change).unwrap_or_default())));
    columns.push(words("outcome", rows.iter().map(recheck_outcome)));
    Grid::new(columns, rows.iter().map(|row| row.recommended))
}

fn recheck_outcome(row: &super::document::Recheck) -> String {
    let met = row.met.iter().filter(|met| **met).count();
    let missed = row.met.len() - met;
    let count = |count: usize, word: &str| (count > 0).then(|| format!("{count} {word}"));
    match (met, missed, row.failed) {
        (_, 0, 0) => "met".to_owned(),
        (0, _, 0) => "missed".to_owned(),
        (0, 0, _) => "failed".to_owned(),
        _ => [count(met, "met"), count(missed, "missed"), count(row.failed, "failed")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Metrics worth a column: the objective's, and those with a limit.
pub fn metrics(report: &Report) -> Vec<String> {
    let question = &report.question;
    let objective = question.metric.iter();
    let mut names: Vec<String> = Vec::new();
    for name in objective.chain(question.constraints.iter().map(|(metric, _)| metric)) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Candidates that no other one beats in every respect.
pub fn front(report: &Report, room: Room) -> Grid {
    let (question, rows) = (&report.question, &report.front);
    let counted = question.rate().and_then(|rate| question.counted(rate)).unwrap_or("requests");
    let first = |choice: &Choice| report.trials.iter().find(|trial| trial.candidate == choice.candidate);
    let trial = |choice: &Choice| first(choice).map(|trial| trial.number.to_string()).unwrap_or_default();
    let mut columns = Vec::new();
    if room == Room::Wide {
        columns.push(numbers("trial", rows.iter().map(trial)));
    }
    columns.extend(settings(report, room, rows.iter().map(|choice| &choice.settings)));
    columns.extend(metrics(report).iter().map(|metric| {
        measures(metric, &question.unit_of(metric), rows.iter().map(|choice| choice.measured.get(metric).copied()))
    }));
    let cost = question.hourly();
    columns.push(measures("cost per hour", &cost, rows.iter().map(|choice| choice.cost_per_hour)));
    if room == Room::Wide {
        let million = rows.iter().map(|choice| choice.cost_per_million);
        columns.push(measures(&format!("cost per million {counted}"), &question.money(), million));
    }
    columns.push(words("outcome", rows.iter().map(|choice| met(report, choice, room))));
    Grid::new(columns, rows.iter().map(|choice| report.is_recommended(choice.candidate)))
}

fn met(report: &Report, choice: &Choice, room: Room) -> String {
    format!("{}{}", if choice.meets { "met" } else { "missed" }, mark(report, choice.candidate, room))
}

/// What a candidate is, beside one of many.
fn mark(report: &Report, candidate: usize, room: Room) -> &'static str {
    match (report.is_recommended(candidate), report.is_baseline(candidate), room) {
        (true, _, Room::Wide) => ", recommended",
        (false, true, Room::Wide) => ", running now",
        (true, _, Room::Narrow) => ", best",
        (false, true, Room::Narrow) => ", now",
        (false, false, _) => "",
    }
}

/// Every trial.
pub fn trials(report: &Report, room: Room) -> Grid {
    let (question, rows) = (&report.question, &report.trials);
    let title = objective_title(report);
    let mut columns = vec![numbers("trial", rows.iter().map(|trial| trial.number.to_string()))];
    let outcomes = words("outcome", rows.iter().map(|trial| outcome(report, trial, room)));
    // On a telephone the first columns are what is seen.
    let (first, last) = if room == Room::Wide { (Some(outcomes), None) } else { (None, Some(outcomes)) };
    columns.extend(first);
    columns.extend(settings(report, room, rows.iter().map(|trial| &trial.settings)));
    columns.push(measures(&title, &question.unit, rows.iter().map(|trial| trial.objective)));
    if room == Room::Wide {
        columns.extend(metrics(report).iter().filter(|metric| **metric != title).map(|metric| {
            measures(metric, &question.unit_of(metric), rows.iter().map(|trial| trial.metrics.get(metric).copied()))
        }));
        let cost = question.hourly();
        columns.push(measures("cost per hour", &cost, rows.iter().map(|trial| trial.cost_per_hour)));
        columns.push(numbers("took", rows.iter().map(|trial| trial.seconds.map(duration).unwrap_or_default())));
        columns.push(words("tried because", rows.iter().map(|trial| trial.why.clone())));
    }
    columns.extend(last);
    columns.push(words("what happened", rows.iter().map(|trial| trial.reason.clone())));
    let mut grid = Grid::new(columns, rows.iter().map(|trial| report.is_recommended(trial.candidate)));
    for (row, trial) in grid.rows.iter_mut().zip(rows) {
        row.lines.clone_from(&trial.log);
    }
    grid
}

/// An objective that is a metric as it is has the metric's name.
fn objective_title(report: &Report) -> String {
    let plain =
        report.question.metric.as_ref().filter(|metric| report.question.unit_of(metric) == report.question.unit);
    plain.cloned().unwrap_or_else(|| "objective".to_owned())
}

/// In a word, with what the candidate is.
fn outcome(report: &Report, trial: &TrialRow, room: Room) -> String {
    let word = match trial.outcome {
        TrialOutcome::Met => "met",
        TrialOutcome::Missed => "missed",
        TrialOutcome::Failed => "failed",
        TrialOutcome::Void => "void",
        TrialOutcome::Running => "running",
    };
    let again = if trial.purpose == Purpose::Confirm { " again" } else { "" };
    format!("{word}{again}{}", mark(report, trial.candidate, room))
}

/// What each parameter explains.
pub fn importance(report: &Report) -> Grid {
    let rows = &report.importance;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let columns = [
        words("parameter", rows.iter().map(|row| row.parameter.clone())),
        numbers("by itself", rows.iter().map(|row| percent(row.alone))),
        numbers("with others", rows.iter().map(|row| percent(row.total))),
    ];
    Grid::new(columns, rows.iter().map(|_| false))
}

/// What changes around the recommendation.
pub fn sensitivity(report: &Report) -> Grid {
    let (unit, rows) = (&report.question.unit, &report.sensitivity);
    let columns = [
        words("parameter", rows.iter().map(|step| step.parameter.clone())),
        numbers("instead", rows.iter().map(|step| step.level.clone())),
        measures("expected", unit, rows.iter().map(|step| Some(step.objective.estimate))),
        measures("at least", unit, rows.iter().map(|step| Some(step.objective.low))),
        measures("at most", unit, rows.iter().map(|step| Some(step.objective.high))),
        numbers("chance of being fit", rows.iter().map(|step| probability(step.probability))),
        words("tried", rows.iter().map(|step| if step.tried { "yes" } else { "no" }.to_owned())),
    ];
    Grid::new(columns, rows.iter().map(|_| false))
}
