//! One watch a kind and namespace into the store. A kind that the server does not serve is waited for.

use std::{collections::HashSet, time::Duration};

use futures::{Stream, StreamExt, future::Either};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    core::{DynamicResourceScope, PartialObjectMeta},
    runtime::watcher,
};
use modelway_plan::{Key, Kind};
use serde::Serialize;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{health::Health, jitter::jittered, metrics::Metrics, served::Served, store::Store, trim};

/// Wait after a failed list or watch; doubled up to the bound.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// After a refusal, which does not pass by itself.
const RETRY_FORBIDDEN: Duration = Duration::from_secs(10);
/// A watch that is not refused within that time after a list is allowed.
const CONFIRM: Duration = Duration::from_secs(2);
/// Events of the job controller about pods that admission refuses.
const REFUSED_PODS: &str = "reason=FailedCreate,involvedObject.kind=Job";
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// The type of a kind for the dynamic API.
pub fn resource(kind: Kind) -> ApiResource {
    let (group, version, name, plural) = kind.names();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version(),
        kind: name.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Why a watch has to begin anew.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Unserved,
    Forbidden,
}

/// One watch.
#[derive(Clone)]
pub struct Informer {
    pub client: Client,
    pub kind: Kind,
    /// The only namespace to look at; all of them when absent.
    pub namespace: Option<String>,
    pub served: Served,
    pub store: Store,
    pub health: Health,
    pub metrics: Metrics,
}

impl Informer {
    /// Watches for ever. `synced` becomes true once the first list is in, or the kind is known to be unserved.
    pub async fn run(self, synced: watch::Sender<bool>) {
        let place = self.namespace.clone().unwrap_or_default();
        self.health.watch_begins(self.kind, &place);
        let (mut wait, mut was_forbidden) = (RETRY_FIRST, false);
        loop {
            let unserved = || {
                self.store.retain(self.kind, self.namespace.as_deref(), &HashSet::new());
                self.works(&place, &synced);
            };
            self.served.wait(self.kind, unserved).await;
            let end = self.watch(&place, &synced, &mut wait, was_forbidden).await;
            was_forbidden = end == End::Forbidden;
            if end == End::Unserved {
                self.served.lost(self.kind);
            }
        }
    }

    /// Watches until the server says that it does not serve the kind, or not to us.
    async fn watch(&self, place: &str, synced: &watch::Sender<bool>, wait: &mut Duration, was_forbidden: bool) -> End {
        let mut events = std::pin::pin!(self.events());
        let mut listed = HashSet::new();
        // A list that is allowed again shows nothing about the watch that follows it.
        let mut confirmed_at = None;
        loop {
            let next = match confirmed_at {
                Some(at) => tokio::time::timeout_at(at, events.next()).await,
                None => Ok(events.next().await),
            };
            match next {
                Err(_) => {
                    confirmed_at = None;
                    self.works(place, synced);
                }
                Ok(Some(Ok(event))) => {
                    let is_complete = matches!(event, watcher::Event::InitDone);
                    self.take(event, &mut listed);
                    if is_complete && was_forbidden {
                        confirmed_at = Some(Instant::now() + CONFIRM);
                    } else if is_complete {
                        *wait = RETRY_FIRST;
                        self.works(place, synced);
                    }
                }
                Ok(Some(Err(error))) => {
                    // What needs none of this kind need not wait for a permission.
                    synced
                        .send_if_modified(|is_synced| code(&error) == Some(403) && !std::mem::replace(is_synced, true));
                    if let Some(end) = self.fails(place, &error, wait).await {
                        return end;
                    }
                }
                Ok(None) => return End::Unserved,
            }
        }
    }

    /// Takes a failure in and waits; says when the watch has to begin anew.
    async fn fails(&self, place: &str, error: &watcher::Error, wait: &mut Duration) -> Option<End> {
        self.metrics.watch_failed(self.kind);
        let end = match code(error) {
            Some(404) => Some(End::Unserved),
            Some(403) => Some(End::Forbidden),
            _ => None,
        };
        if end != Some(End::Unserved) {
            self.tell(place, error, end == Some(End::Forbidden));
        }
        let pause = if end == Some(End::Forbidden) { RETRY_FORBIDDEN } else { *wait };
        tokio::time::sleep(jittered(pause)).await;
        *wait = (*wait * 2).min(RETRY_MAX);
        end
    }

    fn works(&self, place: &str, synced: &watch::Sender<bool>) {
        if self.health.watch_works(self.kind, place) {
            tracing::info!(kind = self.kind.as_str(), namespace = place, "the kind may be seen again");
            self.store.wake_all();
        }
        self.metrics.synced(self.kind, true);
        synced.send_replace(true);
    }

    fn tell(&self, place: &str, error: &watcher::Error, is_forbidden: bool) {
        let (kind, message) = (self.kind.as_str(), words(error));
        let news = self.health.watch_fails(self.kind, place, message.clone(), is_forbidden);
        if news && is_forbidden {
            self.store.wake_all();
        }
        if news && (is_forbidden || !self.health.is_listed(self.kind, place)) {
            tracing::warn!(kind, namespace = place, "the kind cannot be seen, trying again: {message}");
        } else {
            tracing::debug!(kind, namespace = place, "watch interrupted, trying again: {message}");
        }
    }

    fn events(&self) -> impl Stream<Item = watcher::Result<watcher::Event<Value>>> + Send + use<> {
        let kind = self.kind;
        let mut config = watcher::Config::default().page_size(PAGE);
        if kind == Kind::Event {
            config = config.fields(REFUSED_PODS);
        }
        if trim::is_metadata_enough(kind) {
            let api: Api<PartialObjectMeta<DynamicObject>> = self.api();
            return Either::Left(watcher(api, config).map(move |event| event.map(|event| values(kind, event))));
        }
        let api: Api<DynamicObject> = self.api();
        Either::Right(watcher(api, config).map(move |event| event.map(|event| values(kind, event))))
    }

    fn api<K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>>(&self) -> Api<K> {
        let resource = resource(self.kind);
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn take(&self, event: watcher::Event<Value>, listed: &mut HashSet<Key>) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.extend(Key::of(&object));
                self.put(object);
            }
            watcher::Event::InitDone => {
                self.store.retain(self.kind, self.namespace.as_deref(), &std::mem::take(listed));
            }
            watcher::Event::Apply(object) => self.put(object),
            watcher::Event::Delete(object) => {
                if let Some(key) = Key::of(&object) {
                    self.store.remove(&key);
                }
            }
        }
    }

    fn put(&self, object: Value) {
        let Some(key) = Key::of(&object) else { return };
        match trim::trim(self.kind, object) {
            Some(object) => self.store.put(object),
            None => self.store.remove(&key),
        }
    }
}

/// The event with the object as planners see it.
fn values<K: Serialize>(kind: Kind, event: watcher::Event<K>) -> watcher::Event<Value> {
    match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(value(kind, &object)),
        watcher::Event::Apply(object) => watcher::Event::Apply(value(kind, &object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(value(kind, &object)),
    }
}

/// The object with its kind.
pub fn value<K: Serialize>(kind: Kind, object: &K) -> Value {
    let mut value = serde_json::to_value(object).expect("an object from JSON is plain data");
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.as_str().into();
    value
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// The server's own words where there are any.
fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.message.clone(),
        other => other.to_string(),
    }
}
