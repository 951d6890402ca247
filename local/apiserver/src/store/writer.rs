//! The one writer: takes what waits, checks each write against the newest state, commits all of it at once.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::disk::Disk;
use super::hub::{Event, EventKind};
use super::index::Index;
use super::object::{Key, Object};
use super::retention::Retention;
use super::{Shared, WriteError};

/// Writes in one transaction at most: keeps the wait of the first one short.
const BATCH: usize = 256;
/// A write with its precondition.
#[derive(Debug)]
pub struct Write {
    pub key: Key,
    /// The revision that must be current; `None`: the object must not exist.
    pub expected: Option<u64>,
    pub change: Change,
    /// The namespace that must exist and not be terminating.
    pub within: Option<Key>,
}

#[derive(Debug)]
pub enum Change {
    Put(Value),
    /// With the last state, which watchers see.
    Delete(Value),
}

pub(super) type Reply = oneshot::Sender<Result<Arc<Object>, WriteError>>;

pub(super) struct Writer {
    pub disk: Disk,
    pub shared: Arc<Shared>,
    pub queue: mpsc::Receiver<(Write, Reply)>,
    pub retention: Retention,
}

impl Writer {
    /// Works until every handle of the store is gone.
    pub fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = self.queue.try_recv()
            {
                batch.push(next);
            }
            self.commit(batch);
            self.compact_if_due();
        }
    }

    /// Writes objects that are not there yet.
    pub fn seed(&mut self, seeds: Vec<(Key, Value)>) -> rusqlite::Result<()> {
        let events: Vec<Arc<Event>> = {
            let state = self.shared.state.read();
            let mut pending = Pending { index: &state.index, changed: HashMap::new(), revision: state.revision };
            let write = |(key, value)| Write { key, expected: None, change: Change::Put(value), within: None };
            seeds.into_iter().filter_map(|seed| pending.decide(write(seed)).ok()).collect()
        };
        if !events.is_empty() {
            self.disk.commit(&events)?;
            self.shared.publish(&events);
        }
        Ok(())
    }

    fn commit(&mut self, batch: Vec<(Write, Reply)>) {
        let (events, replies) = self.decide(batch);
        if events.is_empty() {
            return;
        }
        match self.disk.commit(&events) {
            Ok(()) => {
                for event in &events {
                    let previous = event.previous.as_ref().map_or(0, |previous| previous.body.len());
                    self.retention.note(event.object.revision, event.object.body.len() + previous);
                }
                self.shared.publish(&events);
                for (reply, event) in replies.into_iter().zip(events) {
                    let _ = reply.send(Ok(event.object.clone()));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the store could not be written");
                let text = error.to_string();
                for reply in replies {
                    drop(reply.send(Err(WriteError::Disk(text.clone()))));
                }
            }
        }
    }

    /// Answers the refused writes at once; returns the events of the others with their replies.
    fn decide(&self, batch: Vec<(Write, Reply)>) -> (Vec<Arc<Event>>, Vec<Reply>) {
        let state = self.shared.state.read();
        let mut pending = Pending { index: &state.index, changed: HashMap::new(), revision: state.revision };
        let (mut events, mut replies) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (write, reply) in batch {
            match pending.decide(write) {
                Ok(event) => {
                    events.push(event);
                    replies.push(reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            }
        }
        (events, replies)
    }

    fn compact_if_due(&mut self) {
        let (revision, compacted) = {
            let state = self.shared.state.read();
            (state.revision, state.compacted)
        };
        let Some(target) = self.retention.due(revision, compacted) else { return };
        // Readers are refused first, so that none reads a history with a hole.
        self.shared.state.write().compacted = target;
        if let Err(error) = self.disk.compact(target) {
            tracing::warn!(%error, "old events could not be removed from the store");
        }
    }
}

/// The newest state as the batch so far makes it.
struct Pending<'a> {
    index: &'a Index,
    changed: HashMap<Key, Option<Arc<Object>>>,
    revision: u64,
}

impl Pending<'_> {
    fn current(&self, key: &Key) -> Option<Arc<Object>> {
        match self.changed.get(key) {
            Some(changed) => changed.clone(),
            None => self.index.get(key).cloned(),
        }
    }

    fn decide(&mut self, write: Write) -> Result<Arc<Event>, WriteError> {
        let previous = self.current(&write.key);
        check_revision(write.expected, previous.as_deref())?;
        if let Some(namespace) = &write.within {
            self.check_namespace(namespace)?;
        }
        let (mut value, kind) = match write.change {
            Change::Put(value) if previous.is_none() => (value, EventKind::Added),
            Change::Put(value) => (value, EventKind::Modified),
            Change::Delete(value) => (value, EventKind::Deleted),
        };
        let revision = self.revision + 1;
        let object = Object::from_value(write.key.clone(), revision, &mut value)
            .map_err(|error| WriteError::Malformed(error.to_string()))?;
        let object = Arc::new(object);
        self.revision = revision;
        self.changed.insert(write.key, (kind != EventKind::Deleted).then(|| object.clone()));
        Ok(Arc::new(Event { kind, object, previous }))
    }

    fn check_namespace(&self, namespace: &Key) -> Result<(), WriteError> {
        match self.current(namespace) {
            None => Err(WriteError::NamespaceMissing),
            Some(object) if object.terminating => Err(WriteError::NamespaceTerminating),
            Some(_) => Ok(()),
        }
    }
}

fn check_revision(expected: Option<u64>, current: Option<&Object>) -> Result<(), WriteError> {
    match (expected, current) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(WriteError::Exists),
        (Some(_), None) => Err(WriteError::Missing),
        (Some(expected), Some(current)) if expected == current.revision => Ok(()),
        (Some(_), Some(_)) => Err(WriteError::Stale),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(name: &str, expected: Option<u64>) -> Write {
        let value = json!({"metadata": {"name": name, "uid": name}});
        Write { key: Key::new("configmaps", "a", name), expected, change: Change::Put(value), within: None }
    }

    #[test]
    fn a_batch_sees_its_own_earlier_writes() {
        let index = Index::default();
        let mut pending = Pending { index: &index, changed: HashMap::new(), revision: 7 };
        assert_eq!(pending.decide(put("x", None)).unwrap().object.revision, 8);
        assert!(matches!(pending.decide(put("x", None)), Err(WriteError::Exists)));
        assert!(matches!(pending.decide(put("x", Some(7))), Err(WriteError::Stale)));
        assert_eq!(pending.decide(put("x", Some(8))).unwrap().object.revision, 9);
        assert!(matches!(pending.decide(put("y", Some(8))), Err(WriteError::Missing)));
    }

    #[test]
    fn writes_need_a_living_namespace() {
        let index = Index::default();
        let mut pending = Pending { index: &index, changed: HashMap::new(), revision: 1 };
        let mut inside = put("x", None);
        inside.within = Some(Key::namespace("a"));
        assert!(matches!(pending.decide(inside), Err(WriteError::NamespaceMissing)));
    }
}
