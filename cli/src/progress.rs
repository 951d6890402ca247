//! What a long command says while it works: bars on a terminal, plain lines elsewhere, always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Where steps are shown.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    terminal: bool,
}

/// One step under way; dropping it unfinished leaves its last message.
pub struct Step {
    bar: Option<ProgressBar>,
    title: String,
    start: Instant,
}

impl Progress {
    /// Bars when standard error is a terminal.
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    /// A step of unknown length.
    pub fn step(self, title: &str) -> Step {
        self.start(title, None)
    }

    /// A step of `total` units.
    pub fn bar(self, title: &str, total: u64) -> Step {
        self.start(title, Some(total))
    }

    fn start(self, title: &str, total: Option<u64>) -> Step {
        let bar = self.terminal.then(|| match total {
            Some(total) => {
                ProgressBar::new(total).with_style(style("{spinner} {prefix} [{bar:30}] {pos}/{len} {msg} (ETA {eta})"))
            }
            None => ProgressBar::new_spinner().with_style(style("{spinner} {prefix} {msg} ({elapsed})")),
        });
        if let Some(bar) = &bar {
            bar.set_prefix(title.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Step { bar, title: title.to_owned(), start: Instant::now() }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Step {
    /// What is waited for now.
    pub fn message(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// One line that stays, while the step goes on.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say(text),
        }
    }

    /// Units in all, once they are known.
    pub fn length(&self, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    /// Units done so far.
    pub fn position(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Ends the step with one line that stays.
    pub fn done(self, result: &str) {
        let took = self.start.elapsed();
        self.done_in(took, result);
    }

    /// Like [`Step::done`], when the step proper ended earlier than now.
    pub fn done_in(self, took: Duration, result: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        stage(&self.title, result, took);
    }
}

/// The line of a finished stage.
pub fn stage(title: &str, result: &str, took: Duration) {
    say(&format!("{title:<10} {result}  ({:.1} s)", took.as_secs_f64()));
}

/// One line.
#[expect(clippy::print_stderr, reason = "progress goes to standard error")]
pub fn say(text: &str) {
    eprintln!("{text}");
}
