//! Kubernetes Events: written in the background, repeated ones counted on the first.

use std::collections::{HashMap, VecDeque};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::call::{CallError, call};
use crate::hub::MANAGER;

/// Events waiting to be written; more are dropped, they are hints and not state.
pub(crate) const BACKLOG: usize = 1024;
/// Events remembered for counting repeats.
const REMEMBERED: usize = 512;

/// Whether a person should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// An Event to be written about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    pub(crate) severity: Severity,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Note {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Normal, reason, message: message.into() }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, reason, message: message.into() }
    }
}

/// The sending side, shared by all controllers.
pub(crate) struct Recorder {
    sender: mpsc::Sender<(ObjectReference, Note)>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::Receiver<(ObjectReference, Note)>) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (Self { sender }, receiver)
    }

    pub(crate) fn record<K: Resource<DynamicType = ()>>(&self, about: &K, note: Note) {
        if self.sender.try_send((reference(about), note)).is_err() {
            tracing::debug!("event dropped: too many are waiting to be written");
        }
    }
}

fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: Some(object.name_any()),
        namespace: object.namespace(),
        resource_version: object.resource_version(),
        uid: object.uid(),
        field_path: None,
    }
}

/// Writes Events until the token is cancelled.
pub(crate) async fn write_events(
    client: Client,
    mut receiver: mpsc::Receiver<(ObjectReference, Note)>,
    token: CancellationToken,
) {
    let mut seen = Seen::default();
    loop {
        let received = tokio::select! {
            () = token.cancelled() => return,
            received = receiver.recv() => received,
        };
        let Some((about, note)) = received else { return };
        if let Err(error) = write(&client, &mut seen, about, note).await {
            tracing::debug!(%error, "event not written");
        }
    }
}

type Repeat = (Option<String>, &'static str, String);

#[derive(Default)]
struct Seen {
    events: HashMap<Repeat, (String, i32)>,
    order: VecDeque<Repeat>,
}

impl Seen {
    /// The written event that this one repeats, with its new count.
    fn repeat(&mut self, key: &Repeat) -> Option<(String, i32)> {
        let (name, count) = self.events.get_mut(key)?;
        *count = count.saturating_add(1);
        Some((name.clone(), *count))
    }

    fn remember(&mut self, key: Repeat, name: String) {
        if self.events.insert(key.clone(), (name, 1)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
    }
}

async fn write(client: &Client, seen: &mut Seen, about: ObjectReference, note: Note) -> Result<(), CallError> {
    let namespace = about.namespace.clone().unwrap_or_else(|| "default".into());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let now = Time(Timestamp::now());
    let key = (about.uid.clone(), note.reason, note.message.clone());
    if let Some((name, count)) = seen.repeat(&key) {
        let patch = Patch::Merge(json!({"count": count, "lastTimestamp": now}));
        match call("count event", &name, api.patch(&name, &PatchParams::default(), &patch)).await {
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop),
        }
    }
    let event = event(about, note, &namespace, now);
    let created = call("create event in", &namespace, api.create(&PostParams::default(), &event)).await?;
    seen.remember(key, created.name_any());
    Ok(())
}

fn event(about: ObjectReference, note: Note, namespace: &str, now: Time) -> Event {
    let suffix: u64 = rand::random();
    let name = format!("{}.{suffix:016x}", about.name.as_deref().unwrap_or("unknown"));
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
        involved_object: about,
        reason: Some(note.reason.to_owned()),
        message: Some(note.message),
        type_: Some(match note.severity {
            Severity::Normal => "Normal".to_owned(),
            Severity::Warning => "Warning".to_owned(),
        }),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        reporting_component: Some(MANAGER.to_owned()),
        reporting_instance: Some("local".to_owned()),
        source: Some(EventSource { component: Some(MANAGER.to_owned()), host: None }),
        ..Event::default()
    }
}
