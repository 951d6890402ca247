//! Carries an experiment out on this machine: asks what is next, has it measured, notes what came of it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use modelway_tune::belief::Problem;
use modelway_tune::experiment::{Attempt, Next, Purpose, Verdict, Why, expected, next, verdict};
use modelway_tune::space::Candidate;
use modelway_tune::spec::Objective;

use crate::file::{Plan, template};
use crate::journal::{Journal, JournalError};
use crate::local::cores::Cores;
use crate::local::{Given, Launcher, Taken, Watch, machine, trial};
use crate::record::{Apply, Entry, Record, Service, VERSION, finite};

/// Who is told how it goes.
pub trait Audience: Watch {
    /// A trial begins.
    fn begun(&mut self, record: &Record, entry: &Entry);

    /// A trial ended; what is known now.
    fn ended(&mut self, record: &Record, entry: &Entry, now: &Verdict);
}

/// Whether it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Finished,
    Stopped,
}

/// The record of an experiment that begins now.
pub fn begin(plan: &Plan, cores: &Cores, modelway: &str) -> Record {
    let service = if plan.service.is_command() {
        Service::Command {
            command: plan.service.command.clone(),
            environment: plan.service.environment.clone(),
            directory: plan.service.directory.display().to_string(),
        }
    } else {
        Service::Url { url: plan.service.url.clone(), restart: plan.service.restart.clone() }
    };
    let mut machine = machine::facts(cores);
    machine.notes.extend(plan.left_out.clone());
    Record {
        modelway: modelway.to_owned(),
        settings: plan.settings.clone(),
        units: plan.units.clone(),
        service,
        load: plan.load.describe(),
        machine,
        ..Record::new(VERSION, plan.name.clone(), plan.question.clone(), unix_seconds())
    }
}

/// Goes on where the journal ends, until the experiment is over or the audience stops it.
pub fn run(
    plan: &Plan,
    cores: &Cores,
    journal: &mut Journal,
    launcher: &mut dyn Launcher,
    audience: &mut dyn Audience,
) -> Result<Ran, JournalError> {
    if journal.record().end.is_some() {
        return Ok(Ran::Finished);
    }
    let problem = Problem::new(&plan.question.spec);
    let (began, before) = (Instant::now(), journal.record().elapsed);
    // The first decision after an interruption is made at the time at which it was, or would have been, made before.
    let mut elapsed = before;
    loop {
        let attempts = journal.record().attempts();
        let (index, candidate, purpose, why) = match next(&plan.question, &problem, &attempts, elapsed) {
            Next::Start { index, candidate, purpose, why } => (index, candidate, purpose, why),
            // One at a time: nothing runs now that could be waited for.
            Next::Wait => return Ok(Ran::Stopped),
            Next::Finish(end) => {
                journal.close(*end, unix_seconds(), elapsed)?;
                return Ok(Ran::Finished);
            }
        };
        if audience.stop() {
            return Ok(Ran::Stopped);
        }
        let entry = begun(journal.record(), Attempt::pending(index, candidate, purpose, elapsed), why);
        journal.begin(entry.clone())?;
        audience.begun(journal.record(), &entry);
        let prediction = prediction(plan, &problem, &attempts, candidate);
        let started = Instant::now();
        let taken = trial(&Given { plan, cores, index, candidate, purpose, prediction }, launcher, audience);
        if taken.stopped {
            return Ok(Ran::Stopped);
        }
        let entry = ended(entry, taken, started.elapsed().as_secs_f64());
        journal.end(entry.clone())?;
        elapsed = before + began.elapsed().as_secs_f64();
        let now = verdict(&plan.question, &problem, &journal.record().attempts());
        audience.ended(journal.record(), &entry, &now);
    }
}

fn begun(record: &Record, attempt: Attempt, why: Why) -> Entry {
    let settings = record.texts(attempt.candidate);
    Entry { name: format!("{}-{}", record.name, attempt.index), ..Entry::begin(attempt, settings, why, unix_seconds()) }
}

fn ended(entry: Entry, taken: Taken, seconds: f64) -> Entry {
    let attempt = Attempt { outcome: finite(taken.outcome), seconds, missed: taken.missed, ..entry.attempt.clone() };
    Entry {
        attempt,
        message: taken.message,
        log: taken.log,
        limits: taken.limits,
        generator_bound: taken.generator_bound,
        report: taken.report,
        ..entry
    }
}

/// Where the models expect the highest rate of a candidate, when that is what the search is for: `ln` and its deviation.
fn prediction(plan: &Plan, problem: &Problem, attempts: &[Attempt], candidate: Candidate) -> Option<(f64, f64)> {
    let is_rate = matches!(&problem.spec.objective, Objective::Metric { metric, .. } if metric == "rate");
    let expected = (is_rate && plan.load.is_search()).then(|| expected(problem, attempts, candidate)).flatten();
    expected.map(|expected| (expected.mean, expected.sd))
}

/// Whether a trial is one of the search.
pub fn is_search(entry: &Entry) -> bool {
    entry.attempt.purpose == Purpose::Search
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// How to run what is recommended; none when nothing is.
pub fn apply(plan: &Plan, record: &Record) -> Option<Apply> {
    let Verdict::Recommended(found) = &record.end.as_ref()?.verdict else { return None };
    let line = |candidate| command_line(plan, candidate);
    Some(Apply {
        change: line(found.candidate),
        commands: Vec::new(),
        language: "sh".to_owned(),
        undo: record.question.spec.baseline.map(line).into_iter().collect(),
    })
}

/// The service's command, or the one that tells it, with the values of a candidate.
fn command_line(plan: &Plan, candidate: Candidate) -> String {
    let mut values = plan.values(candidate, 0, 0);
    values.insert("PORT".to_owned(), "$PORT".to_owned());
    values.insert("TRIAL".to_owned(), "0".to_owned());
    let service = &plan.service;
    let fill = |text: &String| template::fill(text, &values).unwrap_or_else(|_| text.clone());
    let variables = service.environment.iter().map(|(name, text)| format!("{name}={}", quoted(&fill(text))));
    let lines = if service.is_command() { &service.command } else { &service.restart };
    let words: Vec<String> = variables.chain(lines.iter().map(|text| quoted(&fill(text)))).collect();
    let resources: Vec<String> = plan
        .question
        .spec
        .space
        .parameters()
        .iter()
        .filter(|parameter| parameter.resource)
        .filter_map(|parameter| Some(format!("{}={}", parameter.name, values.get(&parameter.name)?)))
        .collect();
    if words.is_empty() {
        return fill(&service.url);
    }
    let limits = if resources.is_empty() { String::new() } else { format!("  # with {}", resources.join(" ")) };
    format!("{}{limits}", words.join(" "))
}

/// A word as a shell reads it; `$PORT` stays for the reader to fill in.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+$".contains(letter);
    let dollars = word.matches('$').count() == word.matches("$PORT").count();
    if !word.is_empty() && word.chars().all(plain) && dollars {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
