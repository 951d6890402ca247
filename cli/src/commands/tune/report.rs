//! `modelway tune report`.

use std::path::{Path, PathBuf};

use modelway_tuner::record::{Record, RecordError, write_whole};
use modelway_tuner::report;

use super::run::explained_record;
use crate::args::{ReportForm, TuneReportArguments};
use crate::exit::{Failure, fail};
use crate::output;

/// The page of an experiment, in its folder.
pub const PAGE: &str = "report.html";
/// Columns where standard output is no terminal.
const WIDTH: usize = 100;
/// Narrower tables break in every word.
const LEAST_WIDTH: usize = 40;

pub fn run(arguments: &TuneReportArguments) -> anyhow::Result<()> {
    let record = Record::read(&arguments.record).map_err(|error| explained_record(&error))?;
    let text = text(&record, arguments.output)?;
    match &arguments.file {
        Some(path) => place(path, &text),
        None => output::raw(text.as_bytes())
            .map_err(|error| fail(Failure::Failed, format!("cannot write the report to standard output: {error}"))),
    }
}

fn text(record: &Record, form: ReportForm) -> anyhow::Result<String> {
    let report = report::report(record);
    Ok(match form {
        ReportForm::Table => report.table(width()),
        ReportForm::Html => report.html(),
        ReportForm::Markdown => report.markdown(),
        ReportForm::Json => report.json()?,
    })
}

/// Writes the page of an experiment beside its record.
pub fn page(record: &Record, folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(PAGE);
    place(&path, &report::report(record).html())?;
    Ok(path)
}

fn place(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = |source| RecordError::Write { path: path.display().to_string(), source };
    write_whole(path, text.as_bytes()).map_err(failed).map_err(|error| explained_record(&error))
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).map_or(WIDTH, |c| c.max(LEAST_WIDTH))
}
