//! Ctrl-C and SIGTERM as a token; a second Ctrl-C ends the process at once (its pods follow by their shims).

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit status of a process that a signal ended (POSIX: 128 + SIGINT).
const INTERRUPTED: i32 = 130;

/// A token that the first signal cancels.
pub fn on_signal() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        cancelled.cancel();
        interrupt.recv().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(token)
}
