//! The route table and the endpoints of its Services, watched on an API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use modelway_api::route_table::RouteTable;
use tokio_util::sync::CancellationToken;

use super::slices::{SERVICE_NAME, by_service};
use crate::routes::{Part, RouteState};

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// What is watched, and for whom.
pub struct Follow {
    client: Client,
    namespace: String,
    inference: String,
    state: Arc<RouteState>,
    services: BTreeSet<String>,
    /// What the last complete list and the events since then say.
    slices: BTreeMap<String, EndpointSlice>,
    /// A list on its way.
    listing: Option<BTreeMap<String, EndpointSlice>>,
    table_seen: bool,
}

impl Follow {
    /// The table of `inference` in `namespace`.
    pub fn new(client: Client, namespace: String, inference: String, state: Arc<RouteState>) -> Self {
        Self {
            client,
            namespace,
            inference,
            state,
            services: BTreeSet::new(),
            slices: BTreeMap::new(),
            listing: None,
            table_seen: false,
        }
    }

    /// Watches until the token is cancelled. Errors leave the snapshot as it is; the watches start again with backoff.
    pub async fn run(mut self, token: CancellationToken) {
        let tables = Api::<RouteTable>::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.inference));
        let mut tables = events(watch(tables, config));
        let mut slices: Events<EndpointSlice> = stream::pending().boxed();
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                Some(event) = tables.next() => {
                    if self.table_event(event) {
                        slices = self.watch_slices();
                    }
                }
                Some(event) = slices.next() => self.slice_event(event),
            }
        }
    }

    /// True when other Services are to be watched from now on.
    fn table_event(&mut self, event: Result<Event<RouteTable>, watcher::Error>) -> bool {
        match event {
            Ok(Event::Apply(table) | Event::InitApply(table)) => {
                self.table_seen = true;
                self.offer(&table)
            }
            Ok(Event::Init) => {
                self.table_seen = false;
                false
            }
            Ok(Event::InitDone) if self.table_seen => false,
            Ok(Event::InitDone | Event::Delete(_)) => {
                let (namespace, inference) = (&self.namespace, &self.inference);
                let problem = format!("RouteTable {namespace}/{inference} does not exist; the last one stays in force");
                self.state.set_problem(Part::Table, Some(problem));
                false
            }
            Err(error) => {
                self.problem(Part::Table, &error);
                false
            }
        }
    }

    fn offer(&mut self, table: &RouteTable) -> bool {
        if self.state.offer(&table.uid().unwrap_or_default(), &table.spec).is_err() {
            return false;
        }
        let services: BTreeSet<_> = table.spec.arms.iter().filter_map(|arm| arm.service.clone()).collect();
        let changed = services != self.services;
        self.services = services;
        changed
    }

    fn watch_slices(&mut self) -> Events<EndpointSlice> {
        self.listing = None;
        if self.services.is_empty() {
            self.state.set_services(BTreeMap::new());
            return stream::pending().boxed();
        }
        let names = self.services.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let config = watcher::Config::default().labels(&format!("{SERVICE_NAME} in ({names})"));
        events(watch(Api::namespaced(self.client.clone(), &self.namespace), config))
    }

    fn slice_event(&mut self, event: Result<Event<EndpointSlice>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.listing = Some(BTreeMap::new()),
            Ok(Event::InitApply(slice)) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(slice.name_any(), slice);
                }
            }
            Ok(Event::InitDone) => {
                if let Some(listing) = self.listing.take() {
                    self.slices = listing;
                    self.publish();
                }
            }
            Ok(Event::Apply(slice)) => {
                self.slices.insert(slice.name_any(), slice);
                self.publish();
            }
            Ok(Event::Delete(slice)) => {
                self.slices.remove(&slice.name_any());
                self.publish();
            }
            Err(error) => self.problem(Part::Endpoints, &error),
        }
    }

    fn publish(&self) {
        self.state.set_problem(Part::Endpoints, None);
        self.state.set_services(by_service(self.slices.values()));
    }

    fn problem(&self, part: Part, error: &watcher::Error) {
        let what = match part {
            Part::Table => "RouteTable",
            Part::Endpoints => "EndpointSlices",
        };
        let problem = format!("cannot watch {what} in namespace {}: {error}; trying again", self.namespace);
        self.state.set_problem(part, Some(problem));
    }
}

fn events<K: Send + 'static>(
    stream: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
) -> Events<K> {
    stream.default_backoff().boxed()
}
