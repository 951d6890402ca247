//! Ctrl-C and SIGTERM while an experiment runs: the first lets the trial end its service, a second ends us at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::signal::unix::{SignalKind, signal};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// The signal that came, if one did.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<AtomicI32>);

impl Signals {
    /// Begins to listen.
    pub fn listen() -> anyhow::Result<Self> {
        let signals = Self::default();
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let seen = signals.clone();
        // Ends with the process: it listens until then.
        tokio::spawn(async move {
            loop {
                let number = tokio::select! { _ = interrupt.recv() => SIGINT, _ = terminate.recv() => SIGTERM };
                if seen.0.swap(number, Ordering::SeqCst) != 0 {
                    // Services end by their shims, which see that we are gone.
                    std::process::exit(128 + number);
                }
            }
        });
        Ok(signals)
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Whether it was SIGTERM.
    pub fn was_terminate(&self) -> bool {
        self.0.load(Ordering::SeqCst) == SIGTERM
    }
}
