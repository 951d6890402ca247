//! What an experiment did so far, line by line on the disk: a kill at any moment loses no trial that ended.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use modelway_tune::experiment::End;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::record::{Entry, Record};

/// Bytes of a journal that are read.
const MAX_BYTES: u64 = 256 << 20;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    /// The first: the record without trials.
    Experiment(Box<Record>),
    /// A trial began. Without its end it was not measured.
    Begin(Box<Entry>),
    /// A trial ended.
    End(Box<Entry>),
    /// The experiment ended.
    Close(Box<Closing>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Closing {
    end: End,
    ended: u64,
    elapsed: f64,
}

/// A journal that this process alone writes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    record: Record,
}

/// Why an experiment cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    File { what: &'static str, path: String, source: std::io::Error },
    /// Another process has it.
    #[error("{path} is in use: another run of this experiment is under way")]
    Busy { path: String },
    /// It holds something else.
    #[error(
        "{path} holds another experiment: its {what} differs; use --fresh to begin anew, or --dir for another folder"
    )]
    Another { path: String, what: &'static str },
    /// A line in the middle makes no sense.
    #[error("{path}, line {line}: {problem}; use --fresh to begin anew")]
    Damaged { path: String, line: usize, problem: String },
}

impl Journal {
    /// Opens or creates the journal of this experiment, given as a record without trials. `fresh` forgets what is there.
    pub fn open(path: &Path, begun: Record, fresh: bool) -> Result<Self, JournalError> {
        let failed = |what| move |source| JournalError::File { what, path: path.display().to_string(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed("open"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Busy { path: path.display().to_string() })?;
        let mut bytes = Vec::new();
        if !fresh {
            Read::by_ref(&mut file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed("read"))?;
        }
        let (known, whole) = read(&bytes, path)?;
        // A line that a kill tore is no line; what is appended next must begin a new one.
        file.set_len(whole as u64).map_err(failed("cut"))?;
        file.seek(SeekFrom::End(0)).map_err(failed("read"))?;
        let mut journal = Self { path: path.to_owned(), file, record: begun.clone() };
        match known {
            Some(record) => {
                journal.check_same(&record)?;
                journal.record = record;
            }
            None => journal.append(&Line::Experiment(Box::new(begun)))?,
        }
        Ok(journal)
    }

    fn check_same(&self, known: &Record) -> Result<(), JournalError> {
        let asked = &self.record;
        let what = match () {
            () if known.question != asked.question => {
                "question (parameters, objective, constraints, cost, limits or seed)"
            }
            () if known.service != asked.service => "service",
            () if known.load != asked.load => "load",
            () => return Ok(()),
        };
        Err(JournalError::Another { path: self.path.display().to_string(), what })
    }

    /// The experiment as far as it is known.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// A trial begins.
    pub fn begin(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.append(&Line::Begin(Box::new(entry)))
    }

    /// A trial ended.
    pub fn end(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.append(&Line::End(Box::new(entry.clone())))?;
        note(&mut self.record, entry);
        Ok(())
    }

    /// The experiment ended.
    pub fn close(&mut self, end: End, ended: u64, elapsed: f64) -> Result<(), JournalError> {
        self.append(&Line::Close(Box::new(Closing { end: end.clone(), ended, elapsed })))?;
        close(&mut self.record, Closing { end, ended, elapsed });
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { what: "write", path: self.path.display().to_string(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

/// The record of the whole lines, and how many bytes these are.
fn read(bytes: &[u8], path: &Path) -> Result<(Option<Record>, usize), JournalError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let damaged =
        |line: usize, problem: String| JournalError::Damaged { path: path.display().to_string(), line, problem };
    let mut record: Option<Record> = None;
    for (number, text) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
        if text.is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(text).map_err(|error| damaged(number + 1, error.to_string()))?;
        match (line, &mut record) {
            (Line::Experiment(begun), None) => {
                begun.question.check().map_err(|error| damaged(number + 1, error.to_string()))?;
                record = Some(*begun);
            }
            (Line::Experiment(_), Some(_)) => return Err(damaged(number + 1, "it begins twice".to_owned())),
            (_, None) => return Err(damaged(number + 1, "it does not begin with an experiment".to_owned())),
            (Line::Begin(entry), Some(record)) => record.elapsed = record.elapsed.max(entry.attempt.at),
            (Line::End(entry), Some(record)) => {
                let candidates = record.question.spec.space.len();
                if entry.attempt.candidate >= candidates {
                    return Err(damaged(number + 1, format!("there are only {candidates} candidates")));
                }
                note(record, *entry);
            }
            (Line::Close(closing), Some(record)) => close(record, *closing),
        }
    }
    Ok((record, whole))
}

/// A trial is measured once: what is known of it stays.
fn note(record: &mut Record, entry: Entry) {
    record.elapsed = record.elapsed.max(entry.attempt.at + entry.attempt.seconds);
    if record.trials.iter().all(|known| known.attempt.index != entry.attempt.index) {
        record.trials.push(entry);
    }
}

fn close(record: &mut Record, closing: Closing) {
    record.end = Some(closing.end);
    record.ended = Some(closing.ended);
    record.elapsed = closing.elapsed;
}
