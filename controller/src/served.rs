//! Which kinds the API server serves. What it does not serve is looked for again, slowly, and at once after a change of
//! definitions.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use modelway_plan::Kind;
use tokio::sync::{Notify, watch};

use crate::{
    health::{Aspect, Health},
    jitter::jittered,
    metrics::Metrics,
    store::Store,
};

/// Wait before the second look; doubled up to the bound, begun anew after a change of definitions.
const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(30);

/// What is known of one kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Serving {
    Unknown,
    Served,
    Unserved,
}

/// The kinds that are served. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Served {
    state: Arc<watch::Sender<BTreeMap<Kind, Serving>>>,
    changed: Arc<Notify>,
}

impl Served {
    /// Nothing is known yet of those kinds.
    pub fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let state = kinds.into_iter().map(|kind| (kind, Serving::Unknown)).collect();
        Self { state: Arc::new(watch::channel(state).0), changed: Arc::default() }
    }

    /// Waits until the kind is served. `unserved` is called when it is known not to be.
    pub async fn wait(&self, kind: Kind, unserved: impl Fn()) {
        let mut receiver = self.state.subscribe();
        let mut before = Serving::Unknown;
        loop {
            let now = receiver.borrow_and_update().get(&kind).copied().unwrap_or(Serving::Unserved);
            match now {
                Serving::Served => return,
                Serving::Unserved if before != now => unserved(),
                Serving::Unserved | Serving::Unknown => {}
            }
            before = now;
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The server answered a list with 404.
    pub fn lost(&self, kind: Kind) {
        self.state.send_modify(|state| _ = state.insert(kind, Serving::Unserved));
        self.changed.notify_one();
    }

    /// A definition has changed.
    pub fn look_again(&self) {
        self.changed.notify_one();
    }

    fn unserved(&self) -> Vec<Kind> {
        let state = self.state.borrow();
        state.iter().filter(|(_, serving)| **serving != Serving::Served).map(|(kind, _)| *kind).collect()
    }
}

/// Looks for unserved kinds.
pub struct Search {
    pub client: Client,
    pub served: Served,
    pub health: Health,
    pub metrics: Metrics,
    pub store: Store,
}

impl Search {
    /// Looks for ever.
    pub async fn run(self) {
        let mut wait = FIRST;
        loop {
            self.look().await;
            let changed = self.served.changed.notified();
            if self.served.unserved().is_empty() {
                changed.await;
                wait = FIRST;
            } else {
                let has_changed = tokio::time::timeout(jittered(wait), changed).await.is_ok();
                wait = if has_changed { FIRST } else { (wait * 2).min(MAX) };
            }
        }
    }

    async fn look(&self) {
        let kinds = self.served.unserved();
        let versions: BTreeSet<String> = kinds.iter().map(|kind| kind.api_version()).collect();
        for version in versions {
            let plurals = match plurals(&self.client, &version).await {
                Ok(plurals) => plurals,
                Err(error) => {
                    tracing::debug!(version, %error, "cannot learn what is served");
                    continue;
                }
            };
            for kind in kinds.iter().filter(|kind| kind.api_version() == version) {
                self.found(*kind, plurals.contains(kind.names().3));
            }
        }
    }

    fn found(&self, kind: Kind, is_served: bool) {
        let serving = if is_served { Serving::Served } else { Serving::Unserved };
        if is_ours(kind) {
            let problem = (!is_served).then(|| missing(kind));
            self.health.definition(kind, Aspect::Served, problem.as_deref());
            self.metrics.definition_problem(kind, self.health.has_definition_problem(kind));
        }
        let has_changed = self.served.state.send_if_modified(|state| state.insert(kind, serving) != Some(serving));
        if has_changed && is_served {
            self.store.wake_all();
        }
    }
}

/// Whether the kind comes with Modelway's own definitions.
pub fn is_ours(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Model | Kind::ModelVersion | Kind::Inference | Kind::RouteTable | Kind::ProfilingExperiment | Kind::Trial
    )
}

fn missing(kind: Kind) -> String {
    let (group, version, _, plural) = kind.names();
    format!(
        "the API server does not serve {plural}.{group} {version}: install the custom resource definitions of this \
         release (helm upgrade, or kubectl apply of the chart's definitions)"
    )
}

async fn plurals(client: &Client, version: &str) -> kube::Result<HashSet<String>> {
    let list = if version.contains('/') {
        client.list_api_group_resources(version).await
    } else {
        client.list_core_api_resources(version).await
    };
    match list {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(HashSet::new()),
        Err(error) => Err(error),
    }
}
