//! `modelway tune run`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use modelway_tuner::experiment::{self, Ran};
use modelway_tuner::file::{self, FileError, Plan, Room, TuneFile};
use modelway_tuner::journal::{Journal, JournalError};
use modelway_tuner::load::LoadError;
use modelway_tuner::local::cores::{self, Cores};
use modelway_tuner::local::machine;
use modelway_tuner::record::{Record, RecordError};

use super::launcher::Shims;
use super::report;
use super::signals::Signals;
use super::summary;
use super::view::View;
use crate::args::{SummaryOutput, TuneRunArguments};
use crate::exit::{Failure, fail};
use crate::output;

/// Bytes of a file that are read.
const MAX_FILE: u64 = 1 << 20;
const RECORD: &str = "record.json";

pub async fn run(arguments: TuneRunArguments) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    // Trials block the thread that watches them, and keep it to its cores: it is one of its own.
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("tune".to_owned());
    let _detached = thread.spawn(move || {
        let _nobody_waits = sender.send(tune(&arguments, &signals));
    })?;
    receiver.await.context("the experiment broke off")?
}

fn tune(arguments: &TuneRunArguments, signals: &Signals) -> anyhow::Result<()> {
    modelway_tuner::load::engine::raise_open_files();
    let file = read(&arguments.file)?;
    let cores = Cores::share(&cores::own(), file.load.threads.unwrap_or(1));
    let plan = plan(&arguments.file, &file, &cores)?;
    if arguments.dry_run {
        dry_run(arguments, &plan, &cores);
        return Ok(());
    }
    let folder = arguments.dir.clone().unwrap_or_else(|| PathBuf::from(format!("tune-{}", plan.name)));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make folder {}", folder.display()))?;
    let begun = experiment::begin(&plan, &cores, env!("CARGO_PKG_VERSION"));
    let journal = Journal::open(&folder.join("journal.jsonl"), begun, arguments.fresh);
    let mut journal = journal.map_err(|error| explained_journal(&error))?;
    // What an earlier run left behind; the journal's lock says that none is under way.
    modelway_node::sweep(&folder).context("cannot end what an earlier run left")?;
    if journal.record().trials.is_empty() {
        forget(&folder)?;
    }
    let mut view = View::new(signals.clone());
    announce(&view, &plan, journal.record());
    if !cores.shared() && !cores::keep_to(&cores.generator) {
        view.say("the load generator cannot be kept to its core: it shares cores with the service");
    }
    let mut shims = Shims::new(&folder, std::env::vars().collect())?;
    let ran = experiment::run(&plan, &cores, &mut journal, &mut shims, &mut view);
    view.clear();
    match ran.map_err(|error| explained_journal(&error))? {
        Ran::Finished => finish(arguments, &plan, journal.record(), &folder),
        Ran::Stopped => Err(stopped(signals, journal.record())),
    }
}

/// Results of another experiment in the same folder are not those of this one.
fn forget(folder: &Path) -> anyhow::Result<()> {
    for name in [RECORD, report::PAGE] {
        match std::fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {name} of an earlier run"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn stopped(signals: &Signals, record: &Record) -> anyhow::Error {
    let failure = if signals.was_terminate() { Failure::Terminated } else { Failure::Interrupted };
    let trials = record.trials.len();
    fail(failure, format!("stopped after {trials} trials; run the same command again to go on"))
}

/// Reads and parses a file.
fn read(path: &Path) -> anyhow::Result<TuneFile> {
    use std::io::Read;
    let name = path.display();
    let mut text = String::new();
    let file =
        std::fs::File::open(path).map_err(|error| fail(Failure::Usage, format!("cannot read {name}: {error}")))?;
    file.take(MAX_FILE)
        .read_to_string(&mut text)
        .map_err(|error| fail(Failure::Usage, format!("cannot read {name} as text: {error}")))?;
    serde_saphyr::from_str(&text)
        .map_err(|error| fail(Failure::Usage, format!("{name}: {}", file::with_hint(&error.to_string()))))
}

fn plan(path: &Path, file: &TuneFile, cores: &Cores) -> anyhow::Result<Plan> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().with_context(|| format!("cannot find the folder of {}", path.display()))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("tune");
    let room = Room { cores: cores.service.len(), memory: machine::memory() };
    file::plan(file, &folder, stem, room).map_err(|error| explained(path, &error))
}

fn announce(view: &View, plan: &Plan, record: &Record) {
    let candidates = plan.question.spec.space.len();
    let most = plan.question.limits.max_trials;
    if record.trials.is_empty() {
        view.say(&format!("{}: {candidates} candidates, at most {most} trials", plan.name));
        if let Some(told) = &plan.left_out {
            view.say(told);
        }
    } else {
        view.say(&format!("{}: goes on after {} trials", plan.name, record.trials.len()));
    }
}

fn dry_run(arguments: &TuneRunArguments, plan: &Plan, cores: &Cores) {
    let question = &plan.question;
    let (candidates, trials) = (question.spec.space.len(), question.limits.max_trials.min(question.spec.space.len()));
    let seconds = (plan.load.warm_up() + plan.load.window()).as_secs_f64();
    if arguments.output == SummaryOutput::Json {
        let document = serde_json::json!({
            "name": plan.name, "candidates": candidates, "trials": trials, "cores": cores.describe(),
            "parameters": question.spec.space.parameters().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        });
        output::json(&document);
        return;
    }
    let row = |title: &str, text: String| vec![title.to_owned(), text];
    let mut rows = vec![row("Candidates", candidates.to_string()), row("Trials", format!("at most {trials}"))];
    rows.extend(plan.left_out.iter().map(|told| row("Left out", told.clone())));
    rows.extend(question.spec.space.parameters().iter().map(|one| {
        let levels: Vec<&str> = one.levels.iter().take(12).map(|level| level.text.as_str()).collect();
        let more = if one.levels.len() > levels.len() { ", …" } else { "" };
        row("Parameter", format!("{}: {}{more}", one.name, levels.join(", ")))
    }));
    let each = if plan.load.is_search() { "several windows each".to_owned() } else { format!("{seconds:.0} s each") };
    rows.push(row("Load", each));
    rows.push(row("Cores", cores.describe()));
    output::table(&[plan.name.clone(), String::new()], &rows);
}

fn finish(arguments: &TuneRunArguments, plan: &Plan, record: &Record, folder: &Path) -> anyhow::Result<()> {
    let Some(end) = record.end.clone() else { anyhow::bail!("the experiment has no end") };
    let mut record = record.clone();
    record.apply = experiment::apply(plan, &record);
    let path = folder.join(RECORD);
    record.write(&path).map_err(|error| explained_record(&error))?;
    let page = report::page(&record, folder)?;
    let files = [("Record", path.as_path()), ("Report", page.as_path())];
    match arguments.output {
        SummaryOutput::Json => output::json(&summary::document(&record, &end, &files)?),
        SummaryOutput::Table => summary::print(&record, &end, &files),
    }
    summary::problem(&record, &end).map_or(Ok(()), |problem| Err(fail(Failure::Failed, problem)))
}

fn explained(path: &Path, error: &FileError) -> anyhow::Error {
    let failure = match error {
        FileError::Load(LoadError::Unreachable { .. }) => Failure::Unreachable,
        _ => Failure::Usage,
    };
    fail(failure, format!("{}: {error}", path.display()))
}

fn explained_journal(error: &JournalError) -> anyhow::Error {
    let failure = match error {
        JournalError::Busy { .. } => Failure::Refused,
        JournalError::Another { .. } => Failure::Usage,
        JournalError::File { .. } | JournalError::Damaged { .. } => Failure::Failed,
    };
    let advice = match error {
        JournalError::File { source, .. } if is_full(source) => {
            "; no trial that ended is lost: make room, and run the same command again"
        }
        _ => "",
    };
    fail(failure, format!("{error}{advice}"))
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// A record that cannot be used, with its exit code.
pub fn explained_record(error: &RecordError) -> anyhow::Error {
    let failure = match error {
        RecordError::Write { .. } => Failure::Failed,
        RecordError::Read { .. } | RecordError::Parse { .. } | RecordError::Damaged { .. } => Failure::Usage,
    };
    fail(failure, error.to_string())
}
