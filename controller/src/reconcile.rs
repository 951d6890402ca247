//! One turn of one key: gather, plan, execute.

use std::{sync::Arc, time::Duration};

use modelway_plan::{Context, Key, Settings, job_source::JobSource};

use crate::{
    clock,
    execute::{ExecuteError, Executor},
    kinds,
    queue::Backoff,
    store::Store,
};

/// After a race: look again at once, then a little later.
const CONFLICT: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_secs(1) };
/// After a failure of the API server.
const FAILURE: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(30) };
/// After a refusal: the next plan knows about it.
const REFUSAL: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_mins(1) };
/// Everything is looked at again after that time, whatever was missed.
const RESYNC: Duration = Duration::from_mins(5);

/// Takes keys from the queue and works on them.
#[derive(Clone)]
pub struct Worker {
    pub store: Store,
    pub executor: Executor,
    pub settings: Arc<Settings>,
    pub sources: Arc<[JobSource]>,
}

impl Worker {
    /// Works for ever.
    pub async fn run(self) {
        loop {
            let key = self.store.queue.next().await;
            match self.turn(&key).await {
                Ok(again) => {
                    self.store.queue.done(&key);
                    if let Some(again) = again {
                        self.store.queue.add_after(key, again);
                    }
                }
                Err(error) => {
                    let wait = self.store.queue.failed(&key, backoff(&error));
                    report(&key, &error, wait);
                }
            }
        }
    }

    /// One turn. Returns when to look again; `None` when the object is gone.
    async fn turn(&self, key: &Key) -> Result<Option<Duration>, ExecuteError> {
        let world = self.store.namespace(&key.namespace);
        if world.object(key).is_none() {
            return Ok(None);
        }
        let plan = {
            let entropy: [u8; 16] = rand::random();
            let cx = Context { world: &world, settings: &self.settings, now: clock::now(), entropy };
            kinds::plan(&cx, &self.sources, key)
        };
        for action in plan.actions {
            self.executor.execute(action).await?;
        }
        Ok(Some(plan.again_after.unwrap_or(RESYNC).min(RESYNC)))
    }
}

fn backoff(error: &ExecuteError) -> Backoff {
    match error {
        ExecuteError::Conflict(_) => CONFLICT,
        ExecuteError::Rejected { .. } => REFUSAL,
        ExecuteError::Timeout { .. } | ExecuteError::Call { .. } | ExecuteError::NoKey => FAILURE,
    }
}

fn report(key: &Key, error: &ExecuteError, wait: Duration) {
    match error {
        ExecuteError::Conflict(_) => tracing::debug!(%key, %error, "planning again"),
        ExecuteError::Rejected { .. }
        | ExecuteError::Timeout { .. }
        | ExecuteError::Call { .. }
        | ExecuteError::NoKey => {
            tracing::warn!(%key, %error, ?wait, "trying again");
        }
    }
}
