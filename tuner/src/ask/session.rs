//! One conversation: a line in, a line out. No line ends it.

use std::path::PathBuf;

use modelway_tune::belief::Problem;
use modelway_tune::experiment::{Attempt, Next, Verdict, next, verdict};
use modelway_tune::history::Outcome;

use super::QuestionFile;
use super::protocol::{Answer, Number, Request, Told, settings};
use crate::file::with_hint;
use crate::journal::Journal;
use crate::record::{Entry, Record, finite};

/// Bytes of a line that are looked at.
const MAX_LINE: usize = 4 << 20;
/// Seconds that a trial may be told to have taken: more is a slip.
const MAX_SECONDS: f64 = 1e9;

/// A conversation under way.
#[derive(Debug, Default)]
pub struct Session {
    journal: Option<PathBuf>,
    line: usize,
    state: Option<State>,
}

#[derive(Debug)]
struct State {
    /// Without the trials that run.
    record: Record,
    running: Vec<Entry>,
    journal: Option<Journal>,
}

impl Session {
    /// `journal`: what is told is kept there, and an earlier conversation goes on.
    pub fn new(journal: Option<PathBuf>) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Whether the question was asked.
    pub fn has_begun(&self) -> bool {
        self.state.is_some()
    }

    /// Seconds that an earlier conversation took.
    pub fn elapsed_before(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.record.elapsed)
    }

    /// Answers a line; `elapsed` are the seconds of the whole experiment, `now` those since 1970. An empty line has no answer.
    pub fn answer(&mut self, text: &str, elapsed: f64, now: u64) -> Option<Answer> {
        self.line += 1;
        if text.trim().is_empty() {
            return None;
        }
        let answered = parse(text).and_then(|request| self.obey(request, elapsed, now));
        Some(answered.unwrap_or_else(|message| Answer::Error { line: self.line, message }))
    }

    fn obey(&mut self, request: Request, elapsed: f64, now: u64) -> Result<Answer, String> {
        if let Request::Question(file) = request {
            return self.begin(&file, now);
        }
        let state = self.state.as_mut().ok_or("first say what is asked: {\"question\": …}")?;
        match request {
            Request::Ask(_) => state.ask(elapsed, now),
            Request::Tell(told) => state.tell(told, elapsed),
            Request::Best(_) => Ok(state.best()),
            Request::Record(target) => state.write(target.path),
            Request::Question(_) => Err("the question was asked already".to_owned()),
        }
    }

    fn begin(&mut self, file: &QuestionFile, now: u64) -> Result<Answer, String> {
        if self.state.is_some() {
            return Err("the question was asked already: start another process for another one".to_owned());
        }
        let begun = file.record(now).map_err(|error| error.to_string())?;
        let journal = self.journal.as_ref().map(|path| Journal::open(path, begun.clone(), false));
        let journal = journal.transpose().map_err(|error| error.to_string())?;
        let record = journal.as_ref().map_or(begun, |journal| journal.record().clone());
        let answer = Answer::Question { candidates: record.question.spec.space.len(), trials: record.trials.len() };
        self.state = Some(State { record, running: Vec::new(), journal });
        Ok(answer)
    }
}

fn parse(text: &str) -> Result<Request, String> {
    if text.len() > MAX_LINE {
        return Err(format!("the line is longer than {} MiB", MAX_LINE >> 20));
    }
    serde_json::from_str(text).map_err(|error| with_hint(&error.to_string()))
}

impl State {
    fn attempts(&self) -> Vec<Attempt> {
        let running = self.running.iter().map(|entry| entry.attempt.clone());
        self.record.attempts().into_iter().chain(running).collect()
    }

    fn ask(&mut self, elapsed: f64, now: u64) -> Result<Answer, String> {
        let question = &self.record.question;
        let step = match &self.record.end {
            Some(end) => Next::Finish(Box::new(end.clone())),
            None => next(question, &Problem::new(&question.spec), &self.attempts(), elapsed),
        };
        match step {
            Next::Start { index, candidate, purpose, why } => {
                let attempt = Attempt::pending(index, candidate, purpose, elapsed);
                let parameters = settings(&self.record, candidate);
                let beside = self.running.iter().map(|entry| entry.attempt.index).collect();
                let entry = Entry { beside, ..Entry::begin(attempt, parameters.clone(), why, now) };
                if let Some(journal) = &mut self.journal {
                    journal.begin(entry.clone()).map_err(|error| error.to_string())?;
                }
                self.running.push(entry);
                Ok(Answer::Start { trial: index, parameters, purpose, why: why.to_string() })
            }
            Next::Wait => Ok(Answer::Wait { running: self.running.iter().map(|entry| entry.attempt.index).collect() }),
            Next::Finish(end) => {
                if self.record.end.is_none() {
                    if let Some(journal) = &mut self.journal {
                        journal.close((*end).clone(), now, elapsed).map_err(|error| error.to_string())?;
                    }
                    (self.record.end, self.record.ended, self.record.elapsed) =
                        (Some((*end).clone()), Some(now), elapsed);
                }
                Ok(Answer::Finish { recommended: self.recommended(&end.verdict), end })
            }
        }
    }

    fn tell(&mut self, told: Told, elapsed: f64) -> Result<Answer, String> {
        let trial = told.trial;
        let place = self.running.iter().position(|entry| entry.attempt.index == trial);
        let place = place.ok_or_else(|| {
            let known = self.record.trials.iter().any(|entry| entry.attempt.index == trial);
            if known { format!("trial {trial} was told already") } else { format!("no trial {trial} was started") }
        })?;
        let outcome = outcome(&told)?;
        let seconds = told.seconds.unwrap_or(elapsed - self.running[place].attempt.at);
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(format!("trial {trial} took {seconds} seconds, which cannot be"));
        }
        let entry = self.running[place].clone();
        let attempt = Attempt { outcome, seconds, ..entry.attempt.clone() };
        let entry = Entry { attempt, message: told.message, ..entry };
        if let Some(journal) = &mut self.journal {
            journal.end(entry.clone()).map_err(|error| error.to_string())?;
        }
        self.running.remove(place);
        self.record.trials.push(entry);
        self.record.elapsed = self.record.elapsed.max(elapsed);
        Ok(Answer::Told { trial })
    }

    fn best(&self) -> Answer {
        let question = &self.record.question;
        let verdict = verdict(question, &Problem::new(&question.spec), &self.record.attempts());
        Answer::Best { recommended: self.recommended(&verdict), verdict: Box::new(verdict) }
    }

    fn write(&self, path: PathBuf) -> Result<Answer, String> {
        self.record.write(&path).map_err(|error| error.to_string())?;
        Ok(Answer::Record { path })
    }

    fn recommended(&self, verdict: &Verdict) -> Option<std::collections::BTreeMap<String, String>> {
        match verdict {
            Verdict::Recommended(found) => Some(settings(&self.record, found.candidate)),
            _ => None,
        }
    }
}

fn outcome(told: &Told) -> Result<Outcome, String> {
    match (&told.failed, told.metrics.is_empty()) {
        (Some(failure), true) => Ok(Outcome::Failed(*failure)),
        (Some(_), false) => Err(format!("trial {} has metrics and failed: say one of both", told.trial)),
        (None, true) => Err(format!("trial {} has neither metrics nor failed", told.trial)),
        (None, false) => {
            let values =
                told.metrics.iter().filter_map(|(name, number)| Some((name.clone(), Number::measurement(*number)?)));
            Ok(finite(Outcome::Measured(values.collect())))
        }
    }
}
