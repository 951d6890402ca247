//! `modelway load`: sends load to a server, and says how it bore it.

mod plan;
mod result;
mod table;
mod view;
mod wait;

use std::path::Path;
use std::time::{Duration, SystemTime};

use modelway_tuner::load::drive::{self, Found};
use modelway_tuner::load::search::{Outcome, Settings};
use modelway_tuner::load::{Finished, LoadError, Options, Report, hdr_log, report};
use tokio_util::sync::CancellationToken;

use crate::args::{LoadArguments, SummaryOutput};
use crate::exit::{Failure, fail};
use crate::{output, stop};
use view::View;

pub async fn run(arguments: LoadArguments) -> anyhow::Result<()> {
    modelway_tuner::load::engine::raise_open_files();
    let token = stop::on_signal()?;
    // The generator has threads of its own and blocks the one that watches it.
    tokio::task::spawn_blocking(move || {
        let measured = measure(&arguments, &token);
        if let (Err(error), Some(path)) = (&measured, &arguments.trial.result) {
            result::write_failure(path, error)?;
        }
        measured
    })
    .await?
}

fn measure(arguments: &LoadArguments, token: &CancellationToken) -> anyhow::Result<()> {
    let options = match arguments.trial.wait {
        Some(patience) => wait::for_answer(arguments, patience, token),
        None => plan::options(arguments),
    };
    let options = options.map_err(|error| explained(&error))?;
    if arguments.arrivals.search {
        return find(arguments, &options, token);
    }
    let started = SystemTime::now();
    let mut view = View::new(&options, token.clone());
    let finished =
        modelway_tuner::load::run(&options, &mut |live| view.observe(live)).map_err(|error| explained(&error))?;
    view.clear();
    let report = report(&options, &finished);
    export(arguments.hdr.as_deref(), &finished, started)?;
    match arguments.output {
        SummaryOutput::Json => output::json(&serde_json::to_value(&report)?),
        SummaryOutput::Table => table::print(&options, &report),
    }
    match &arguments.trial.result {
        Some(path) => result::write(path, &result::of_run(&options, &report, &finished)),
        None => judge(&report),
    }
}

fn find(arguments: &LoadArguments, options: &Options, token: &CancellationToken) -> anyhow::Result<()> {
    if !drive::is_bounded(&options.constraints) {
        return Err(fail(
            Failure::Usage,
            "a search needs a constraint on a percentile, such as --constraint 'p95<=50ms'",
        ));
    }
    let started = SystemTime::now();
    let settings = Settings {
        prediction: arguments.search.expected_rate.map(|rate| (rate.ln(), EXPECTED_DEVIATION)),
        probe: arguments.search.probe,
        certify: arguments.search.certify,
        highest: arguments.search.highest_rate,
        ..Settings::new(drive::certify_requests(&options.constraints))
    };
    let mut view = View::new(options, token.clone());
    let found = drive::search(options, settings, &mut |step, live| {
        view.step(step);
        view.observe(live)
    });
    let found = found.map_err(|error| explained(&error))?;
    view.clear();
    if let Some(finished) = &found.last {
        export(arguments.hdr.as_deref(), finished, started)?;
    }
    match arguments.output {
        SummaryOutput::Json => output::json(&table::search_document(&found)?),
        SummaryOutput::Table => table::print_search(options, &found),
    }
    match &arguments.trial.result {
        Some(path) if !found.stopped => result::write(path, &result::of_search(options, &found)),
        _ => judge_search(&found),
    }
}

/// How sure a user is of a rate that they expect: a factor of 1.65 either way within two deviations.
const EXPECTED_DEVIATION: f64 = 0.25;

fn export(path: Option<&Path>, finished: &Finished, started: SystemTime) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let length = Duration::try_from_secs_f64(finished.window).unwrap_or_default();
    hdr_log::write(path, &finished.measured, started, length).map_err(|error| fail(Failure::Failed, error.to_string()))
}

/// The exit code says whether the run is worth something, and whether the constraints are met.
fn judge(report: &Report) -> anyhow::Result<()> {
    if let Some(bound) = report.generator.bound.first() {
        return Err(fail(Failure::Failed, format!("the generator was the bottleneck, not the server: {bound}")));
    }
    if report.requests.ok == 0 {
        let why = report.errors.first().map(|class| format!(": {}", class.example)).unwrap_or_default();
        return Err(fail(Failure::Failed, format!("no request was answered well{why}")));
    }
    let missed: Vec<&str> =
        report.constraints.iter().filter(|judged| !judged.met).map(|judged| judged.constraint.as_str()).collect();
    if missed.is_empty() { Ok(()) } else { Err(fail(Failure::Failed, format!("missed: {}", missed.join(", ")))) }
}

fn judge_search(found: &Found) -> anyhow::Result<()> {
    let problem = match found.outcome {
        _ if found.stopped => "the search was stopped",
        Outcome::Certified { .. } => return Ok(()),
        Outcome::Infeasible => "one user alone misses the constraints",
        Outcome::GeneratorBound { .. } => {
            "the generator was the bottleneck, not the server; use --threads, or another machine"
        }
        Outcome::Uncertain { .. } => {
            "no rate could be certified: the server's times are too noisy; try a longer --certify"
        }
    };
    Err(fail(Failure::Failed, problem))
}

fn explained(error: &LoadError) -> anyhow::Error {
    let failure = match error {
        LoadError::Input(_) => Failure::Usage,
        LoadError::Unreachable { .. } => Failure::Unreachable,
        LoadError::Refused { .. } => Failure::Refused,
        LoadError::Machine { .. } => Failure::Failed,
    };
    fail(failure, error.to_string())
}
