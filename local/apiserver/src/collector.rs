//! Deletes what nobody holds any more: dependents of gone owners, the insides of namespaces and of custom kinds.
//! Also gives every namespace its default account, as Kubernetes' controllers do.
//!
//! Works from the store's events through the index; a full pass happens at start and after falling behind only.

mod account;
mod decide;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use crate::meta::{self, FOREGROUND, ORPHAN};
use crate::query::{FieldValidation, WriteParameters};
use crate::store::{Event, EventKind, Key, Object, Subscription};
use crate::write::delete::{DeleteOptions, Preconditions, Propagation, delete};
use crate::write::internal::{edit, remove_finalizer, remove_owners};
use crate::write::{Part, Request};
use crate::{Core, crds};
use decide::{Action, decide};

/// Failed work is tried again, and old events expire, this often.
const TICK: Duration = Duration::from_secs(2);
/// As in Kubernetes.
const EVENT_LIFETIME: Duration = Duration::from_hours(1);
/// Ticks between looks for old events.
const EXPIRY_TICKS: u32 = 30;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Object(Key),
    /// The default account of a namespace.
    Account(String),
    Namespace(String),
    Definition(String),
}

/// Work in order, each piece once.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Work>,
    waiting: HashSet<Work>,
    failed: Vec<Work>,
}

impl Queue {
    fn push(&mut self, work: Work) {
        if self.waiting.insert(work.clone()) {
            self.order.push_back(work);
        }
    }

    fn push_account(&mut self, namespace: Option<&str>) {
        if let Some(namespace) = namespace {
            self.push(Work::Account(namespace.to_owned()));
        }
    }

    fn retry(&mut self) {
        for work in std::mem::take(&mut self.failed) {
            self.push(work);
        }
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.order.pop_front()?;
        self.waiting.remove(&work);
        Some(work)
    }
}

/// Runs until the server shuts down.
pub async fn run(core: Arc<Core>) {
    while !core.shutdown.is_cancelled() {
        let (events, snapshot) = core.store.subscribe_all();
        let mut queue = Queue::default();
        for object in snapshot.objects {
            note_put(&mut queue, &object);
        }
        Box::pin(follow(&core, queue, events)).await;
    }
}

/// Returns when the subscription ended or the server shuts down.
async fn follow(core: &Core, mut queue: Queue, mut events: Subscription) {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ticks = 0_u32;
    loop {
        while let Ok(event) = events.try_recv() {
            note(core, &mut queue, &event);
        }
        if core.shutdown.is_cancelled() {
            return;
        }
        if let Some(work) = queue.pop() {
            queue.failed.extend(attempt(core, work).await);
            continue;
        }
        tokio::select! {
            () = core.shutdown.cancelled() => return,
            event = events.recv() => match event {
                Some(event) => note(core, &mut queue, &event),
                None => return,
            },
            _ = tick.tick() => {
                queue.retry();
                ticks += 1;
                if ticks.is_multiple_of(EXPIRY_TICKS) {
                    Box::pin(expire_events(core)).await;
                }
            }
        }
    }
}

fn note(core: &Core, queue: &mut Queue, event: &Event) {
    if event.kind == EventKind::Deleted {
        note_deleted(core, queue, &event.object);
    } else {
        note_put(queue, &event.object);
    }
}

fn note_put(queue: &mut Queue, object: &Object) {
    let held = object.has_finalizer(FOREGROUND) || object.has_finalizer(ORPHAN);
    if !object.owners.is_empty() || (object.terminating && held) {
        queue.push(Work::Object(object.key.clone()));
    }
    if !object.terminating {
        queue.push_account(account::missing_in(object));
        return;
    }
    if object.key.namespace.is_empty() && &*object.key.resource == "namespaces" {
        queue.push(Work::Namespace(object.key.name.clone()));
    }
    if &*object.key.resource == crds::RESOURCE {
        queue.push(Work::Definition(object.key.name.clone()));
    }
}

fn note_deleted(core: &Core, queue: &mut Queue, object: &Object) {
    for dependent in core.store.dependents(&object.uid) {
        queue.push(Work::Object(dependent.key.clone()));
    }
    for owner in &object.owners {
        if let Some(owner) = core.store.by_uid(&owner.uid).filter(|owner| owner.terminating) {
            queue.push(Work::Object(owner.key.clone()));
        }
    }
    queue.push_account(account::taken_from(object));
    let terminating = |key: &Key| core.store.get(key).is_some_and(|object| object.terminating);
    if !object.key.namespace.is_empty() && terminating(&Key::namespace(&object.key.namespace)) {
        queue.push(Work::Namespace(object.key.namespace.clone()));
    }
    if terminating(&crds::key(&object.key.resource)) {
        queue.push(Work::Definition(object.key.resource.to_string()));
    }
}

/// Gives the work back when it has to be tried again.
async fn attempt(core: &Core, work: Work) -> Option<Work> {
    let why = Box::pin(perform(core, &work)).await.err()?;
    tracing::debug!(?work, why, "not collected yet");
    Some(work)
}

async fn perform(core: &Core, work: &Work) -> Result<(), String> {
    match work {
        Work::Object(key) => collect(core, key).await,
        Work::Account(namespace) => account::ensure(core, namespace).await,
        Work::Namespace(name) => empty_namespace(core, name).await,
        Work::Definition(name) => empty_definition(core, name).await,
    }
}

async fn collect(core: &Core, key: &Key) -> Result<(), String> {
    let Some(object) = core.store.get(key) else { return Ok(()) };
    let dependents = core.store.dependents(&object.uid);
    let known = |api_version: &str, kind: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        core.kinds().find_kind(group, version, kind).is_some()
    };
    let action = decide(&object, &dependents, |uid| core.store.by_uid(uid), known);
    let text = |error: crate::store::WriteError| error.to_string();
    match action {
        Action::Nothing => Ok(()),
        Action::Delete(policy) => remove(core, &object, Some(policy)).await,
        Action::DropOwners(uids) => remove_owners(core, key, &uids).await.map_err(text),
        Action::Orphan => {
            for dependent in dependents {
                remove_owners(core, &dependent.key, std::slice::from_ref(&object.uid)).await.map_err(text)?;
            }
            remove_finalizer(core, key, ORPHAN).await.map_err(text)
        }
        Action::DeleteDependents => {
            for dependent in dependents.iter().filter(|dependent| !dependent.terminating) {
                // Each decides by itself: another owner may hold it.
                Box::pin(collect(core, &dependent.key)).await?;
            }
            Ok(())
        }
        Action::Release => remove_finalizer(core, key, FOREGROUND).await.map_err(text),
    }
}

async fn empty_namespace(core: &Core, name: &str) -> Result<(), String> {
    let key = Key::namespace(name);
    if core.store.get(&key).is_none_or(|namespace| !namespace.terminating) {
        return Ok(());
    }
    remove_all(core, &core.store.in_namespace(name)).await?;
    if !core.store.in_namespace(name).is_empty() {
        // The removal of the last one brings this work back.
        return Ok(());
    }
    edit(core, &key, |namespace| namespace["spec"]["finalizers"] = Value::Array(Vec::new()))
        .await
        .map_err(|error| error.to_string())
}

async fn empty_definition(core: &Core, name: &str) -> Result<(), String> {
    let key = crds::key(name);
    if core.store.get(&key).is_none_or(|definition| !definition.terminating) {
        return Ok(());
    }
    remove_all(core, &core.store.list(name, None).objects).await?;
    if !core.store.list(name, None).objects.is_empty() {
        return Ok(());
    }
    remove_finalizer(core, &key, crds::CLEANUP).await.map_err(|error| error.to_string())
}

async fn remove_all(core: &Core, objects: &[Arc<Object>]) -> Result<(), String> {
    let mut result = Ok(());
    for object in objects.iter().filter(|object| !object.terminating) {
        result = remove(core, object, None).await.and(result);
    }
    result
}

async fn remove(core: &Core, object: &Object, policy: Option<Propagation>) -> Result<(), String> {
    let kinds = core.kinds();
    let kind = kinds.iter().find(|kind| kind.resource() == *object.key.resource).cloned();
    let Some(kind) = kind else { return Err(format!("{} is not served", object.key.resource)) };
    let parameters = WriteParameters {
        manager: "garbage-collector".to_owned(),
        manager_given: true,
        dry_run: false,
        force: false,
        field_validation: FieldValidation::Ignore,
    };
    let request = Request {
        kind,
        namespace: object.key.namespace.clone(),
        part: Part::Main,
        parameters,
        now: meta::now(),
        duplicates: Vec::new(),
    };
    let options = DeleteOptions {
        propagation_policy: policy,
        preconditions: Some(Preconditions { uid: Some(object.uid.clone()), resource_version: None }),
        ..DeleteOptions::default()
    };
    match delete(core, &request, &object.key.name, &options).await {
        Err(error) if error.reason != "NotFound" => Err(error.to_string()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Events are news; Kubernetes forgets them after an hour, too.
async fn expire_events(core: &Core) {
    let oldest = k8s_openapi::jiff::Timestamp::now() - EVENT_LIFETIME;
    for object in core.store.list("events", None).objects {
        let value = object.value();
        let times = [&value["lastTimestamp"], &value["eventTime"], &value["metadata"]["creationTimestamp"]];
        let newest = times.into_iter().filter_map(Value::as_str).filter_map(|text| text.parse().ok()).max();
        if newest.is_some_and(|time: k8s_openapi::jiff::Timestamp| time < oldest)
            && let Err(why) = remove(core, &object, None).await
        {
            tracing::debug!(why, "an old event could not be removed");
        }
    }
}
