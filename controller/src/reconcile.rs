//! One turn of one key: gather, plan, execute.

use std::{sync::Arc, time::Duration};

use kube::Client;
use modelway_api::Reason;
use modelway_plan::{Context, Key, Plan, Settings, job_source::JobSource, refusal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    blocked, clock,
    execute::{ExecuteError, Executor},
    health::{Health, Obstacle},
    jitter::jittered,
    kinds,
    leadership::Leadership,
    metrics::Metrics,
    nodes::{Nodes, Sizes},
    queue::Backoff,
    store::Store,
};

/// After a race: look again at once, then a little later.
const CONFLICT: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_secs(1) };
/// After a failure of the API server.
const FAILURE: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(30) };
/// After a refusal: the next plan knows about it.
const REFUSAL: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_mins(1) };
/// After a refusal that the object tells about already: until somebody does something.
const DENIAL: Backoff = Backoff { first: Duration::from_secs(5), max: Duration::from_mins(1) };
/// Everything is looked at again after that time, whatever was missed.
const RESYNC: Duration = Duration::from_mins(5);
/// While the first list of a kind is on its way.
const UNLISTED: Duration = Duration::from_secs(1);

/// Takes keys from the queue and works on them.
#[derive(Clone)]
pub struct Worker {
    pub store: Store,
    pub executor: Executor,
    pub settings: Arc<Settings>,
    pub sources: Arc<[JobSource]>,
    pub leadership: Leadership,
    pub health: Health,
    pub metrics: Metrics,
    /// With whom to ask for nodes; nobody where only some namespaces are looked at.
    pub cluster: Option<Client>,
    pub nodes: Nodes,
}

/// What a turn came to.
#[derive(Debug)]
enum Turn {
    /// Look again then; `None` when the object is gone.
    Done(Option<Duration>),
    /// Asked to stop with actions left.
    Stopped,
}

impl Worker {
    /// Works until it is stopped, then ends with the write that is under way.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = next(&mut self.leadership, &self.store) => key,
            };
            let (busy, began) = (self.health.busy("a worker"), Instant::now());
            let turn = self.turn(&key, &stop).await;
            drop(busy);
            let result = turn.as_ref().map_or_else(ExecuteError::reason, |_| "ok");
            self.metrics.reconciled(key.kind, result, began.elapsed(), clock::now().as_second());
            self.settle(key, turn);
            // Turns without a write wait for nothing: the election and the watches must get their time in between.
            tokio::task::yield_now().await;
        }
    }

    fn settle(&self, key: Key, turn: Result<Turn, ExecuteError>) {
        let queue = &self.store.queue;
        match turn {
            Ok(Turn::Done(again)) => {
                queue.done(&key);
                if let Some(again) = again {
                    queue.add_after(key, again);
                }
            }
            // It waits for a leader, this one or the next.
            Ok(Turn::Stopped) | Err(ExecuteError::NotLeading(_)) => {
                queue.done(&key);
                queue.add(key);
            }
            Err(error) => {
                let wait = queue.failed(&key, backoff(&error), error.retry_after(), rand::random());
                report(&key, &error, wait);
            }
        }
    }

    async fn turn(&self, key: &Key, stop: &CancellationToken) -> Result<Turn, ExecuteError> {
        let Some(plan) = self.planned(key).await else { return Ok(Turn::Done(None)) };
        for action in plan.actions {
            if stop.is_cancelled() {
                return Ok(Turn::Stopped);
            }
            if let Err(error) = self.executor.execute(action).await {
                self.tell(key, &error).await?;
                return Err(error);
            }
        }
        let again = plan.again_after.filter(|again| *again < RESYNC);
        Ok(Turn::Done(Some(again.unwrap_or_else(|| jittered(RESYNC)))))
    }

    /// The plan; what takes long is worked out where nobody waits for it.
    async fn planned(&self, key: &Key) -> Option<Plan> {
        if !kinds::is_long(key.kind) {
            return self.plan(key, None);
        }
        let nodes_matter = Nodes::matter(key, &self.store.namespace(&key.namespace));
        let nodes = match self.cluster.as_ref().filter(|_| nodes_matter) {
            Some(client) => Some(self.nodes.sizes(client).await),
            None => None,
        };
        let (worker, own) = (self.clone(), key.clone());
        match tokio::task::spawn_blocking(move || worker.plan(&own, nodes)).await {
            Ok(plan) => plan,
            Err(error) => {
                tracing::error!(%key, %error, "planning ended before its time, trying again");
                Some(Plan { again_after: Some(UNLISTED), ..Plan::default() })
            }
        }
    }

    /// What the object's present state asks for; `None` when it is gone.
    fn plan(&self, key: &Key, nodes: Option<Sizes>) -> Option<Plan> {
        let mut world = self.store.namespace(&key.namespace);
        if let Some(nodes) = nodes {
            Arc::make_mut(&mut world).set_nodes(nodes);
        }
        let live = world.object(key)?;
        match self.health.obstacle(kinds::needs(key.kind), &key.namespace) {
            Some(Obstacle::Unlisted(_)) => Some(Plan { again_after: Some(UNLISTED), ..Plan::default() }),
            Some(Obstacle::Told { reason, message }) => {
                Some(blocked::plan(key, live, reason, &advised(reason, &message), clock::now()))
            }
            None => {
                let entropy: [u8; 16] = rand::random();
                let cx = Context { world: &world, settings: &self.settings, now: clock::now(), entropy };
                Some(kinds::plan(&cx, &self.sources, key))
            }
        }
    }

    /// Tells on the object about a refusal that its own planner will not tell about.
    async fn tell(&self, key: &Key, error: &ExecuteError) -> Result<(), ExecuteError> {
        let (ExecuteError::Denied { message, .. } | ExecuteError::Rejected { message, is_again: true, .. }) = error
        else {
            return Ok(());
        };
        let reason = refusal::reason(message);
        let plan = {
            let world = self.store.namespace(&key.namespace);
            let Some(live) = world.object(key) else { return Ok(()) };
            blocked::plan(key, live, reason, &advised(reason, &error.to_string()), clock::now())
        };
        for action in plan.actions {
            match self.executor.execute(action).await {
                Err(error @ ExecuteError::NotLeading(_)) => return Err(error),
                Err(error) => tracing::debug!(%key, %error, "the refusal cannot be told on the object"),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// The next key, once this process leads.
async fn next(leadership: &mut Leadership, store: &Store) -> Key {
    leadership.leading().await;
    store.queue.next().await
}

fn advised(reason: Reason, message: &str) -> String {
    format!("{message}{}", refusal::advice(reason))
}

fn backoff(error: &ExecuteError) -> Backoff {
    match error {
        ExecuteError::Conflict(_) => CONFLICT,
        ExecuteError::Rejected { is_again: false, .. } => REFUSAL,
        ExecuteError::Rejected { .. } | ExecuteError::Denied { .. } => DENIAL,
        ExecuteError::Timeout { .. }
        | ExecuteError::Call { .. }
        | ExecuteError::NoKey
        | ExecuteError::NotLeading(_) => FAILURE,
    }
}

fn report(key: &Key, error: &ExecuteError, wait: Duration) {
    match error {
        ExecuteError::Conflict(_) => tracing::debug!(%key, %error, "planning again"),
        ExecuteError::Rejected { .. }
        | ExecuteError::Denied { .. }
        | ExecuteError::Timeout { .. }
        | ExecuteError::Call { .. }
        | ExecuteError::NoKey
        | ExecuteError::NotLeading(_) => {
            tracing::warn!(%key, %error, ?wait, "trying again");
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use modelway_plan::Kind;

    use super::*;

    fn worker(store: &Store) -> Worker {
        let nobody = tower::service_fn(|_: http::Request<Body>| std::future::pending::<Result<_, std::io::Error>>());
        let client = Client::new::<_, Body, _>(nobody, "default");
        let leadership = Leadership::always();
        Worker {
            store: store.clone(),
            executor: Executor::new(client, store.clone(), leadership.clone()),
            settings: Arc::default(),
            sources: Arc::new([]),
            leadership,
            health: Health::default(),
            metrics: Metrics::default(),
            cluster: None,
            nodes: Nodes::default(),
        }
    }

    #[tokio::test]
    async fn a_long_queue_leaves_time_for_others() {
        let store = Store::default();
        for number in 0..1_000 {
            store.queue.add(Key::new(Kind::Model, "n", format!("m-{number}")));
        }
        let stop = CancellationToken::new();
        let running = tokio::spawn(worker(&store).run(stop.clone()));
        tokio::task::yield_now().await;
        assert!(store.queue.due() > 900, "{} of 1000 keys are left after one turn of the runtime", store.queue.due());
        stop.cancel();
        running.await.unwrap();
    }
}
