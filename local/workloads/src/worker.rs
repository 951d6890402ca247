//! Runs one controller: takes keys from its queue, a few at a time, and gives each to the reconciler.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::call::CallError;
use crate::key::Key;
use crate::queue::{Outcome, Queue};

/// Keys of one controller in work at a time.
const CONCURRENCY: usize = 8;
/// Every key is looked at this often even without an event; a lost event heals.
const RESYNC: Duration = Duration::from_mins(10);

/// One controller.
pub(crate) trait Reconcile: Send + Sync + 'static {
    const NAME: &'static str;

    fn queue(&self) -> &Queue;

    /// Brings one object nearer to what was asked. `Some` asks to look again after that time.
    fn reconcile(&self, key: &Key) -> impl Future<Output = Result<Next, CallError>> + Send;
}

/// When to look again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Next {
    /// At the next event, or at the slow resync.
    #[default]
    Event,
    /// After this time at the latest.
    After(Duration),
    /// The object is gone.
    Never,
}

/// Works until the token is cancelled.
pub(crate) async fn work<R: Reconcile>(reconciler: Arc<R>, token: CancellationToken) {
    let mut running = JoinSet::new();
    loop {
        while running.len() >= CONCURRENCY {
            tokio::select! {
                () = token.cancelled() => return,
                ended = running.join_next() => note_panic::<R>(ended),
            }
        }
        let key = tokio::select! {
            () = token.cancelled() => return,
            key = reconciler.queue().next() => key,
        };
        while let Some(ended) = running.try_join_next() {
            note_panic::<R>(Some(ended));
        }
        let reconciler = reconciler.clone();
        running.spawn(async move { work_on(reconciler.as_ref(), key).await });
    }
}

/// A panic is a bug in our code; its key is tried again with backoff.
fn note_panic<R: Reconcile>(ended: Option<Result<(), JoinError>>) {
    if let Some(Err(error)) = ended {
        tracing::error!(controller = R::NAME, %error, "the work on an object ended unexpectedly");
    }
}

async fn work_on<R: Reconcile>(reconciler: &R, key: Key) {
    // Given back even when the work panics, so one bad object cannot lock its key for ever.
    let mut turn = Turn { queue: reconciler.queue(), key: Some(key.clone()), outcome: Outcome::Failed };
    turn.outcome = match reconciler.reconcile(&key).await {
        Ok(Next::After(delay)) => Outcome::Again(delay.min(RESYNC)),
        Ok(Next::Event) => Outcome::Again(RESYNC),
        Ok(Next::Never) => Outcome::Done,
        Err(error) if error.is_conflict() || error.is_not_found() => {
            tracing::debug!(controller = R::NAME, %key, %error, "tried again");
            Outcome::Failed
        }
        Err(error) => {
            tracing::warn!(controller = R::NAME, %key, %error, "tried again");
            Outcome::Failed
        }
    };
}

struct Turn<'a> {
    queue: &'a Queue,
    key: Option<Key>,
    outcome: Outcome,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.finish(key, self.outcome);
        }
    }
}
