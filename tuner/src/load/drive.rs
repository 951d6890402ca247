//! Carries a rate search out.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::Serialize;

use super::constraint::Constraint;
use super::engine::{Control, Finished, Live, Options, run};
use super::report::{Report, report};
use super::schedule::Source;
use super::search::{Assessment, Judge, Outcome, Probe, Search, Settings, Step, Verdict};
use super::statistics::requests_needed;
use super::{LoadError, Pattern};

/// How sure a certificate is.
const CONFIDENCE: f64 = 0.95;

/// A search that ended.
#[derive(Clone, Debug)]
pub struct Found {
    pub outcome: Outcome,
    pub tried: Vec<Tried>,
    /// The last run: the certificate, when there is one.
    pub report: Option<Report>,
    pub last: Option<Finished>,
    /// The observer stopped it.
    pub stopped: bool,
}

/// One step that was carried out.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// `alone`, `probe` or `certify`.
    pub step: &'static str,
    /// None for one user alone.
    pub rate: Option<f64>,
    pub seconds: f64,
    pub good: bool,
    /// The 95th percentile of the latency, in seconds.
    pub p95: f64,
    /// Why it ended early.
    pub abandoned: Option<String>,
    pub generator_bound: bool,
}

/// Requests that constraints need in a certificate.
pub fn certify_requests(constraints: &[Constraint]) -> u64 {
    let allowances = constraints.iter().filter_map(Constraint::allowance).filter(|allowance| *allowance > 0.0);
    allowances.map(|allowance| requests_needed(allowance, CONFIDENCE)).max().unwrap_or(1)
}

/// Whether constraints end a search: one of them must limit a time of single requests, else any rate is good.
pub fn is_bounded(constraints: &[Constraint]) -> bool {
    constraints.iter().any(|constraint| constraint.time_limit().is_some() && constraint.allowance().is_some())
}

/// Finds the highest rate at which the constraints of `options` are met; its source and duration are not used.
/// `observe` is told of each step and of each second in it.
pub fn search(
    options: &Options,
    settings: Settings,
    observe: &mut dyn FnMut(&Step, Option<&Live>) -> Control,
) -> Result<Found, LoadError> {
    if !is_bounded(&options.constraints) {
        let problem = "a search needs a constraint on a percentile or the largest of a time, such as p95<=50ms";
        return Err(LoadError::Input(problem.to_owned()));
    }
    let mut search = Search::new(settings);
    let mut found = Found {
        outcome: Outcome::Uncertain { rate: None },
        tried: Vec::new(),
        report: None,
        last: None,
        stopped: false,
    };
    loop {
        let step = search.step();
        if let Step::Done(outcome) = step {
            found.outcome = outcome;
            return Ok(found);
        }
        let (probe, tried, finished, options) = carry_out(options, &step, observe)?;
        found.report = Some(report(&options, &finished));
        found.stopped = finished.stopped && tried.abandoned.is_none();
        found.last = Some(finished);
        found.tried.push(tried);
        if found.stopped {
            return Ok(found);
        }
        search.tell(probe);
        if probe.verdict == Verdict::Bad {
            recover(&options)?;
        }
    }
}

type Carried = (Probe, Tried, Finished, Options);

fn carry_out(
    options: &Options,
    step: &Step,
    observe: &mut dyn FnMut(&Step, Option<&Live>) -> Control,
) -> Result<Carried, LoadError> {
    let (name, rate, duration) = match step {
        Step::Alone { duration } => ("alone", None, *duration),
        Step::Probe { rate, duration } => ("probe", Some(*rate), *duration),
        Step::Certify { rate, duration } => ("certify", Some(*rate), *duration),
        Step::Done(_) => ("done", None, Duration::ZERO),
    };
    let source = match rate {
        None => Source::Closed { users: NonZeroU64::MIN, think: Duration::ZERO },
        Some(rate) => Source::Open(Pattern::Poisson { rate }),
    };
    let options = Options { source, duration: Some(duration), requests: None, ..options.clone() };
    let mut judge = Judge::new(options.constraints.clone());
    let mut abandoned = None;
    let finished = run(&options, &mut |live| {
        if abandoned.is_none() {
            abandoned = live.and_then(|live| why(&judge.watch(&live.second), &options.constraints));
        }
        let control = observe(step, live);
        if abandoned.is_some() { Control::Stop } else { control }
    })?;
    let misses = &finished.measured.misses;
    let verdict = match step {
        _ if abandoned.is_some() => Verdict::Bad,
        Step::Certify { .. } => Verdict::of_certificate(&options.constraints, misses),
        Step::Alone { .. } | Step::Probe { .. } | Step::Done(_) => Verdict::of_probe(&options.constraints, misses),
    };
    let summary = report(&options, &finished);
    let generator_bound = !summary.generator.valid;
    let tried = Tried {
        step: name,
        rate,
        seconds: finished.window,
        good: verdict == Verdict::Good,
        p95: summary.latency.p95,
        abandoned,
        generator_bound,
    };
    let probe =
        Probe { verdict, generator_bound: generator_bound && rate.is_some(), mean_latency: summary.latency.mean };
    Ok((probe, tried, finished, options))
}

fn why(assessment: &Assessment, constraints: &[Constraint]) -> Option<String> {
    match assessment {
        Assessment::Undecided => None,
        Assessment::Missed { constraint } => {
            constraints.get(*constraint).map(|missed| format!("{missed} is certainly missed"))
        }
        Assessment::QueueGrows => Some("requests come faster than they are answered".to_owned()),
    }
}

/// After too much load, waits for one answer: what the server still has from this probe is not the next one's burden.
fn recover(options: &Options) -> Result<(), LoadError> {
    let source = Source::Closed { users: NonZeroU64::MIN, think: Duration::ZERO };
    let one = Options { source, duration: None, requests: Some(1), warm_up: Duration::ZERO, ..options.clone() };
    run(&one, &mut |_| Control::Continue).map(|_| ())
}
