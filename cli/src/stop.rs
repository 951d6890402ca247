//! Ctrl-C and SIGTERM as a token; a second Ctrl-C ends the process at once (its pods follow by their shims).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::exit::{Failure, fail};

/// Exit status of a process that a signal ended (POSIX: 128 + SIGINT).
const INTERRUPTED: i32 = 130;

/// The first signal.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    token: CancellationToken,
    terminated: Arc<AtomicBool>,
}

impl Stop {
    /// Begins to listen.
    pub fn listen() -> anyhow::Result<Self> {
        let stop = Self::default();
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let seen = stop.clone();
        tokio::spawn(async move {
            let terminated = tokio::select! { _ = interrupt.recv() => false, _ = terminate.recv() => true };
            seen.terminated.store(terminated, Ordering::SeqCst);
            seen.token.cancel();
            interrupt.recv().await;
            std::process::exit(INTERRUPTED);
        });
        Ok(stop)
    }

    /// Until it comes.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// What it means for whoever called us, when a command ends by it before its time.
    pub fn error(&self, text: &str) -> anyhow::Error {
        let failure = if self.terminated.load(Ordering::SeqCst) { Failure::Terminated } else { Failure::Interrupted };
        fail(failure, text)
    }
}

/// A token that the first signal cancels.
pub fn on_signal() -> anyhow::Result<CancellationToken> {
    Ok(Stop::listen()?.token)
}
