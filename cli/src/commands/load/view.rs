//! What a run says while it goes on: one live line on a terminal, a plain line every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use modelway_tuner::load::search::Step;
use modelway_tuner::load::statistics::quantile_of;
use modelway_tuner::load::{Control, Live, Options};
use tokio_util::sync::CancellationToken;

use super::table::time;
use crate::progress::say;

/// Seconds between plain lines.
const PLAIN_EVERY: i64 = 5;

/// Watches one run, or a search.
pub struct View {
    bar: Option<ProgressBar>,
    token: CancellationToken,
    title: String,
    warm_up: Duration,
}

impl View {
    pub fn new(options: &Options, token: CancellationToken) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new_spinner().with_style(style)
        });
        Self { bar, token, title: String::new(), warm_up: options.warm_up }
    }

    /// Which step of a search this is.
    pub fn step(&mut self, step: &Step) {
        let title = match step {
            Step::Alone { .. } => "one user alone".to_owned(),
            Step::Probe { rate, .. } => format!("probe {rate:.1}/s"),
            Step::Certify { rate, duration } => format!("certify {rate:.1}/s for {} s", duration.as_secs()),
            Step::Done(_) => String::new(),
        };
        if self.title != title {
            if self.bar.is_none() {
                say(&title);
            }
            self.title = title;
        }
    }

    /// Shows a second that has passed; says whether to go on.
    pub fn observe(&mut self, live: Option<&Live>) -> Control {
        if let Some(live) = live {
            let line = self.line(live);
            match &self.bar {
                Some(bar) => bar.set_message(line),
                None if live.second.index.rem_euclid(PLAIN_EVERY) == PLAIN_EVERY - 1 => say(&line),
                None => {}
            }
        }
        if let Some(bar) = &self.bar {
            bar.tick();
        }
        if self.token.is_cancelled() { Control::Stop } else { Control::Continue }
    }

    /// Takes the live line away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, live: &Live) -> String {
        let second = &live.second;
        let at = |quantile| time(quantile_of(&second.latency, quantile) as f64 / 1e9);
        let mut parts = vec![format!("{:>4.0} s", live.elapsed.as_secs_f64())];
        if !self.title.is_empty() {
            parts.push(self.title.clone());
        }
        if second.index < 0 {
            parts.push(format!("warm-up of {} s", self.warm_up.as_secs_f64()));
        }
        parts.push(format!("{}/s", second.ok));
        parts.push(format!("{} under way", second.in_flight));
        parts.push(format!("p50 {}  p95 {}  p99 {}", at(0.5), at(0.95), at(0.99)));
        if second.waiting > 0 {
            parts.push(format!("{} wait for a connection", second.waiting));
        }
        if second.failed > 0 {
            parts.push(format!("{} failed", second.failed));
        }
        parts.join("  ")
    }
}
