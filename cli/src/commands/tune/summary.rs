//! What an experiment found, in a few lines or one document.

use std::path::Path;

use modelway_tune::experiment::{End, Verdict};
use modelway_tune::recommend::{Interval, Recommendation, Shortfall};
use modelway_tune::spec::{Goal, Objective};
use modelway_tune::stop::Stop;
use modelway_tuner::local::metrics::{digits, shown};
use modelway_tuner::record::Record;
use modelway_tuner::replay::settings_text;
use modelway_tuner::report::visible;
use serde_json::{Value, json};

use crate::output;

/// Prints a few lines.
pub fn print(record: &Record, end: &End, files: &[(&str, &Path)]) {
    let mut rows = vec![row("Ended", &ended(record, end))];
    match &end.verdict {
        Verdict::Recommended(found) => rows.extend(recommended(record, found)),
        Verdict::NothingMeets { shortfalls } => {
            rows.push(row("Found", "nothing that meets every constraint"));
            rows.extend(shortfalls.iter().map(|one| row("", &shortfall(record, one))));
        }
        Verdict::NotMeasured { metric } => rows.push(row("Found", &format!("nothing: {metric} was never measured"))),
        Verdict::NothingRan { failures } => {
            let list: Vec<String> = failures.iter().map(|(failure, count)| format!("{failure:?} {count}")).collect();
            rows.push(row("Found", &format!("nothing that ran ({})", list.join(", "))));
            rows.extend(record.trials.last().map(|entry| row("", &entry.message)));
        }
        Verdict::NothingTried => rows.push(row("Found", "nothing: no trial ended")),
    }
    if let Some(apply) = record.apply.as_ref().filter(|apply| !apply.change.is_empty()) {
        rows.push(row("Run", &apply.change));
    }
    rows.extend(files.iter().map(|(title, path)| row(title, &path.display().to_string())));
    output::table(&[record.name.clone(), String::new()], &rows);
}

/// The same for programs.
pub fn document(record: &Record, end: &End, files: &[(&str, &Path)]) -> anyhow::Result<Value> {
    let settings = |candidate: usize| serde_json::to_value(record.texts(candidate));
    let (recommended, gain) = match &end.verdict {
        Verdict::Recommended(found) => (settings(found.candidate)?, serde_json::to_value(found.gain)?),
        _ => (Value::Null, Value::Null),
    };
    let baseline = record.question.spec.baseline.map(settings).transpose()?;
    let mut document = json!({
        "name": record.name,
        "candidates": end.candidates,
        "trials": end.trials,
        "end": serde_json::to_value(end)?,
        "baseline": baseline,
        "recommended": recommended,
        "gain": gain,
        "apply": serde_json::to_value(&record.apply)?,
    });
    for (title, path) in files {
        document[title.to_lowercase()] = json!(path);
    }
    Ok(document)
}

/// Why nothing is recommended; `None` when something is.
pub fn problem(record: &Record, end: &End) -> Option<String> {
    let text = match &end.verdict {
        _ if end.stop == Stop::Machine => {
            let last = record.trials.last().map(|entry| entry.message.clone()).unwrap_or_default();
            format!("this machine failed again and again: {last}")
        }
        Verdict::Recommended(_) => return None,
        Verdict::NothingMeets { shortfalls } => {
            let list: Vec<String> = shortfalls.iter().map(|one| shortfall(record, one)).collect();
            format!("no candidate meets every constraint: {}", list.join("; "))
        }
        Verdict::NotMeasured { metric } => format!("no trial measured {metric}"),
        Verdict::NothingRan { .. } => {
            let last = record.trials.last().map(|entry| entry.message.clone()).unwrap_or_default();
            format!("no candidate ran: {last}")
        }
        Verdict::NothingTried => "no trial ended".to_owned(),
    };
    Some(visible(&text).into_owned())
}

fn recommended(record: &Record, found: &Recommendation) -> Vec<Vec<String>> {
    let mut rows = vec![row("Recommended", &settings_text(record, found.candidate))];
    if let Some(gain) = found.gain.filter(|_| record.question.spec.baseline != Some(found.candidate)) {
        rows.push(row("Gain", &gain_text(record, gain)));
    }
    if record.question.spec.baseline == Some(found.candidate) {
        rows.push(row("Gain", "none: what runs now is the best that was found"));
    }
    rows.push(row("Objective", &value(record, found.value)));
    let each = record.question.spec.constraints.iter().zip(&found.constraints);
    rows.extend(each.map(|(constraint, probability)| {
        let limit = shown(&constraint.metric, constraint.bound.limit());
        row("", &format!("{} within {limit}: {:.1} % sure", constraint.metric, probability * 100.0))
    }));
    if !found.confident {
        rows.push(row("", "not sure enough to run without another look: P(all constraints) is below 95 %"));
    }
    rows
}

/// `1.62 times what runs now (95 %: 1.50 to 1.74)`.
fn gain_text(record: &Record, gain: Interval) -> String {
    let of = match (&record.question.spec.objective, record.question.spec.goal()) {
        (Objective::Cost, _) => "cheaper than what runs now by a factor of",
        (_, Goal::Maximize) => "better than what runs now by a factor of",
        (_, Goal::Minimize) => "lower than what runs now by a factor of",
    };
    format!("{of} {} (95 % interval {} to {})", digits(gain.estimate), digits(gain.low), digits(gain.high))
}

fn value(record: &Record, value: Interval) -> String {
    let name = match &record.question.spec.objective {
        Objective::Cost => return format!("cost {} an hour", digits(value.estimate)),
        Objective::Metric { metric, per_cost: true, .. } => {
            let text = |one: f64| digits(one);
            return format!("{metric} per cost {} ({} to {})", text(value.estimate), text(value.low), text(value.high));
        }
        Objective::Metric { metric, .. } => metric,
    };
    format!("{name} {} ({} to {})", shown(name, value.estimate), shown(name, value.low), shown(name, value.high))
}

fn shortfall(record: &Record, one: &Shortfall) -> String {
    let (limit, best) = (shown(&one.metric, one.limit), shown(&one.metric, one.best));
    let at = settings_text(record, one.candidate);
    if one.met {
        return format!("{} is met alone ({best}, limit {limit}, by {at}), not with the others", one.metric);
    }
    format!("{}: the best is {best} ({at}), the limit is {limit}", one.metric)
}

fn ended(record: &Record, end: &End) -> String {
    let why = match end.stop {
        Stop::Exhausted => "every candidate was tried",
        Stop::Trials => "as many trials as allowed",
        Stop::Failures => "too many trials failed",
        Stop::Time => "the time is used up",
        Stop::Money => "the money is used up",
        Stop::LittleToGain => "little more is to be gained",
        Stop::Machine => "this machine failed again and again",
    };
    let failed = if end.failed > 0 { format!(", {} failed", end.failed) } else { String::new() };
    let (trials, candidates) = (end.trials, end.candidates);
    let again = end.confirmed;
    format!("{why}: {trials} of {candidates} candidates tried{failed}, {again} measured again, {:.0} s", record.elapsed)
}

fn row(title: &str, text: &str) -> Vec<String> {
    vec![title.to_owned(), visible(text).into_owned()]
}
