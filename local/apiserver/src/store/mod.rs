//! The durable store: one `SQLite` file, one writer with group commit, all newest states in memory.
//!
//! A write is acknowledged after its transaction is on disk, and seen by readers and watchers only then.
//! Revisions grow by one per write and never come back, also across restarts.

mod disk;
mod hub;
mod index;
mod lock;
mod object;
mod retention;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

pub use disk::DiskError;
use disk::{Contents, Disk, HistoryReader};
use hub::Hub;
pub use hub::{Event, EventKind, Subscription};
use index::Index;
pub use object::{Key, Object, Owner};
use retention::Retention;
pub use writer::{Change, Write};
use writer::{Reply, Writer};

/// Writes that may wait for the writer.
const QUEUE: usize = 1024;
/// Events kept for watches that come back: minutes of a busy machine, hours of a usual one.
pub const EVENTS_KEPT: u64 = 8_000;
/// Longer than any healthy disk needs for a full queue.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a write was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the object exists")]
    Exists,
    #[error("the object does not exist")]
    Missing,
    #[error("the object has changed")]
    Stale,
    #[error("the namespace does not exist")]
    NamespaceMissing,
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    #[error("the object cannot be stored: {0}")]
    Malformed(String),
    #[error("the store could not be written: {0}")]
    Disk(String),
    #[error("the store did not answer in time; the write may or may not have happened")]
    Timeout,
    #[error("the store is closed")]
    Closed,
}

/// Why events cannot be replayed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("too old resource version: {wanted} ({oldest})")]
    Compacted { wanted: u64, oldest: u64 },
    #[error("the store's history could not be read: {0}")]
    Disk(String),
}

/// A cheap handle; the writer ends when the last one is gone.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    queue: mpsc::Sender<(Write, Reply)>,
    path: Arc<PathBuf>,
    history: Arc<Mutex<Option<HistoryReader>>>,
}

#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    index: Index,
    hub: Hub,
    revision: u64,
    compacted: u64,
}

/// A consistent view: objects as of one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
}

impl Shared {
    fn publish(&self, events: &[Arc<Event>]) {
        let mut state = self.state.write();
        for event in events {
            if event.kind == EventKind::Deleted {
                state.index.remove(&event.object.key);
            } else {
                state.index.put(event.object.clone());
            }
            state.revision = event.object.revision;
            state.hub.publish(event);
        }
    }
}

impl Store {
    /// Opens or creates the file, adds the `seeds` it lacks and starts the writer.
    pub fn open(path: &Path, seeds: Vec<(Key, Value)>) -> Result<Self, DiskError> {
        Self::open_keeping(path, seeds, EVENTS_KEPT)
    }

    /// As [`Store::open`], with that many events kept for watches that come back.
    pub fn open_keeping(path: &Path, seeds: Vec<(Key, Value)>, events: u64) -> Result<Self, DiskError> {
        let disk = Disk::open(path)?;
        let Contents { objects, revision, compacted } = disk.load()?;
        let mut state = State { revision, compacted, ..State::default() };
        for object in objects {
            state.index.put(object);
        }
        let shared = Arc::new(Shared { state: RwLock::new(state) });
        let (queue, waiting) = mpsc::channel(QUEUE);
        let mut writer = Writer { disk, shared: shared.clone(), queue: waiting, retention: Retention::new(events) };
        writer.seed(seeds).map_err(|source| DiskError::Sqlite { path: path.to_owned(), source })?;
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| DiskError::Folder { path: path.to_owned(), source })?;
        Ok(Self { shared, queue, path: Arc::new(path.to_owned()), history: Arc::default() })
    }

    /// Returns when the write is durable and visible.
    pub async fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let exchange = async {
            self.queue.send((write, reply)).await.map_err(|_| WriteError::Closed)?;
            answer.await.map_err(|_| WriteError::Closed)?
        };
        tokio::time::timeout(WRITE_TIMEOUT, exchange).await.map_err(|_| WriteError::Timeout)?
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.shared.state.read().index.get(key).cloned()
    }

    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        let state = self.shared.state.read();
        Snapshot { objects: state.index.list(resource, namespace), revision: state.revision }
    }

    pub fn revision(&self) -> u64 {
        self.shared.state.read().revision
    }

    /// Events from now on, with the state they start from.
    pub fn subscribe(&self, resource: &str, namespace: Option<&str>) -> (Subscription, Snapshot) {
        let mut state = self.shared.state.write();
        let subscription = state.hub.subscribe(Some(resource));
        (subscription, Snapshot { objects: state.index.list(resource, namespace), revision: state.revision })
    }

    /// Events of every resource from now on, with all objects they start from.
    pub fn subscribe_all(&self) -> (Subscription, Snapshot) {
        let mut state = self.shared.state.write();
        let subscription = state.hub.subscribe(None);
        (subscription, Snapshot { objects: state.index.all().cloned().collect(), revision: state.revision })
    }

    /// Committed events with `after < revision <= until`, oldest first, at most `limit`.
    pub async fn events(
        &self,
        resource: &str,
        after: u64,
        until: u64,
        limit: u32,
    ) -> Result<Vec<Arc<Event>>, HistoryError> {
        self.check_compaction(after)?;
        let (history, path, resource) = (self.history.clone(), self.path.clone(), resource.to_owned());
        let read = move || {
            let mut slot = history.lock();
            let reader = match slot.take() {
                Some(reader) => reader,
                None => HistoryReader::open(&path).map_err(|error| error.to_string())?,
            };
            let events = reader.events(&resource, after, until, limit).map_err(|error| error.to_string());
            *slot = Some(reader);
            events
        };
        let events = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| HistoryError::Disk(error.to_string()))?
            .map_err(HistoryError::Disk)?;
        // Again, as compaction may have passed while reading.
        self.check_compaction(after)?;
        Ok(events)
    }

    fn check_compaction(&self, after: u64) -> Result<(), HistoryError> {
        let oldest = self.shared.state.read().compacted;
        if after < oldest { Err(HistoryError::Compacted { wanted: after, oldest }) } else { Ok(()) }
    }

    /// Objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        self.shared.state.read().index.dependents(uid)
    }

    pub fn by_uid(&self, uid: &str) -> Option<Arc<Object>> {
        self.shared.state.read().index.by_uid(uid).cloned()
    }

    /// Everything that lives in one namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.shared.state.read().index.in_namespace(namespace)
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

    async fn reopen(path: &Path) -> Store {
        for _ in 0..200 {
            match Store::open(path, Vec::new()) {
                Err(DiskError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
                other => return other.unwrap(),
            }
        }
        panic!("the writer of the closed store did not end");
    }

    #[tokio::test]
    async fn revisions_and_history_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let store = Store::open(&path, Vec::new()).unwrap();
        let first = store.write(put("x", None)).await.unwrap().revision;
        let second = store.write(put("x", Some(first))).await.unwrap().revision;
        assert!(matches!(Store::open(&path, Vec::new()), Err(DiskError::InUse { .. })));
        drop(store);
        let store = reopen(&path).await;
        assert_eq!(store.revision(), second);
        assert_eq!(store.list("configmaps", Some("a")).objects[0].revision, second);
        let events = store.events("configmaps", first, second, 10).await.unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].previous.as_ref().unwrap().revision, first);
        assert_eq!(store.write(put("y", None)).await.unwrap().revision, second + 1);
    }

    #[tokio::test]
    async fn many_writers_share_commits_and_get_distinct_revisions() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state.db"), Vec::new()).unwrap();
        let writes = (0..200).map(|number| {
            let store = store.clone();
            async move { store.write(put(&format!("c{number}"), None)).await.unwrap().revision }
        });
        let mut revisions = futures::future::join_all(writes).await;
        revisions.sort_unstable();
        revisions.dedup();
        assert_eq!(revisions.len(), 200);
    }

    #[tokio::test]
    async fn compacted_events_are_refused_and_young_ones_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_keeping(&folder.path().join("state.db"), Vec::new(), 8).unwrap();
        for number in 0..30 {
            store.write(put(&format!("c{number}"), None)).await.unwrap();
        }
        let newest = store.revision();
        let error = store.events("configmaps", 2, newest, 100).await.unwrap_err();
        assert!(matches!(error, HistoryError::Compacted { wanted: 2, .. }));
        assert_eq!(store.events("configmaps", newest - 5, newest, 100).await.unwrap().len(), 5);
    }

    #[tokio::test]
    async fn a_watcher_that_does_not_read_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state.db"), Vec::new()).unwrap();
        let (mut slow, _) = store.subscribe("configmaps", None);
        let writes = (0..1500).map(|number| {
            let store = store.clone();
            async move { store.write(put(&format!("c{number}"), None)).await.map(|object| object.revision) }
        });
        assert!(futures::future::join_all(writes).await.iter().all(Result::is_ok));
        let mut seen = 0;
        while slow.recv().await.is_some() {
            seen += 1;
        }
        assert_eq!(seen, 1024);
    }

    #[test]
    fn refuses_a_file_of_a_newer_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        drop(connection);
        let error = Store::open(&path, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("state.db") && error.contains("schema 99") && error.contains("up to 1"), "{error}");
    }
}
