//! What an experiment says while it runs: a line a trial, and what goes on now on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use modelway_tune::experiment::{Purpose, Verdict};
use modelway_tune::history::{Failure, Outcome};
use modelway_tuner::experiment::Audience;
use modelway_tuner::load::Live;
use modelway_tuner::load::search::Step;
use modelway_tuner::load::statistics::quantile_of;
use modelway_tuner::local::metrics::shown;
use modelway_tuner::local::{Phase, Watch};
use modelway_tuner::record::{Entry, Record};
use modelway_tuner::replay::settings_text;
use modelway_tuner::report::visible;

use super::signals::Signals;
use crate::progress::say;

/// Looks on, and stops when a signal came.
pub struct View {
    bar: Option<ProgressBar>,
    signals: Signals,
    title: String,
    phase: &'static str,
}

impl View {
    pub fn new(signals: Signals) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
            let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, signals, title: String::new(), phase: "" }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        // Answers and logs of the service are in it.
        let text = visible(text);
        match &self.bar {
            Some(bar) => bar.suspend(|| say(&text)),
            None => say(&text),
        }
    }

    /// Takes the live line away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(visible(&format!("{}  {}  {text}", self.title, self.phase)).into_owned());
        }
    }
}

impl Watch for View {
    fn phase(&mut self, phase: Phase) {
        self.phase = match phase {
            Phase::Starting => "starting",
            Phase::Measuring => "measuring",
            Phase::Stopping => "ending",
        };
        self.show("");
    }

    fn second(&mut self, step: Option<&Step>, live: Option<&Live>) {
        let Some(live) = live else { return };
        let second = &live.second;
        let p95 = quantile_of(&second.latency, 0.95) as f64 / 1e9;
        let step = match step {
            Some(Step::Alone { .. }) => "one user alone  ".to_owned(),
            Some(Step::Probe { rate, .. }) => format!("probe {}  ", shown("rate", *rate)),
            Some(Step::Certify { rate, .. }) => format!("certify {}  ", shown("rate", *rate)),
            Some(Step::Done(_)) | None => String::new(),
        };
        self.show(&format!("{step}{}/s, p95 {}", second.ok, shown("latency.p95", p95)));
    }

    fn stop(&self) -> bool {
        self.signals.came()
    }
}

impl Audience for View {
    fn begun(&mut self, record: &Record, entry: &Entry) {
        let number = entry.attempt.index + 1;
        let why = entry.why.map(|why| format!("  ({why})")).unwrap_or_default();
        self.title = format!("{number:>3}  {}", settings_text(record, entry.attempt.candidate));
        if self.bar.is_none() {
            self.say(&format!("{}{why}", self.title));
        }
        if let Some(bar) = &self.bar {
            bar.reset_elapsed();
        }
        self.show(&why);
    }

    fn ended(&mut self, record: &Record, entry: &Entry, now: &Verdict) {
        let best = matches!(now, Verdict::Recommended(found) if found.candidate == entry.attempt.candidate);
        let mark = if best { "  best so far" } else { "" };
        let again = if entry.attempt.purpose == Purpose::Confirm { "again: " } else { "" };
        let bound = if entry.generator_bound.is_empty() { "" } else { "  (the load generator was the limit)" };
        let result = format!("{again}{}{}{bound}{mark}", failure(&entry.attempt.outcome), entry.message);
        let seconds = entry.attempt.seconds;
        match &self.bar {
            Some(_) => {
                let settings = settings_text(record, entry.attempt.candidate);
                self.say(&format!("{:>3}  {settings}  {result}  ({seconds:.1} s)", entry.attempt.index + 1));
            }
            None => self.say(&format!("     {result}  ({seconds:.1} s)")),
        }
    }
}

/// A word for a failure.
pub fn failure(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Measured(_) | Outcome::Pending => "",
        Outcome::Failed(Failure::OutOfMemory) => "out of memory: ",
        Outcome::Failed(Failure::Crash) => "crashed: ",
        Outcome::Failed(Failure::Unschedulable) => "no room: ",
        Outcome::Failed(Failure::StartTimeout) => "never ready: ",
        Outcome::Failed(Failure::ObjectiveUnmet) => "objectives missed: ",
        Outcome::Failed(Failure::Infrastructure) => "this machine failed, it is tried again: ",
    }
}
