//! The `SQLite` file: objects, the history that watches replay, and the revision counter.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

use super::hub::{Event, EventKind};
use super::lock::Lock;
use super::object::{Key, Object};

/// Version of the tables below, kept in the file as `user_version`.
const SCHEMA_VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE history (
    revision INTEGER PRIMARY KEY, kind INTEGER NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    previous_revision INTEGER, previous BLOB
);
CREATE INDEX history_by_resource ON history (resource, revision);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('revision', 1), ('compacted', 0);
";

/// Why the store's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("cannot create the data folder {path}: {source}")]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("{path} is in use by another process; stop it, or choose another data folder")]
    InUse { path: PathBuf },
    #[error(
        "{path} was written by a newer version (schema {found}, this one reads up to {supported}); use that version, or another data folder"
    )]
    Newer { path: PathBuf, found: i64, supported: i64 },
    #[error("cannot use the store {path}: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("{path} holds a damaged object {name}: {source}")]
    Damaged { path: PathBuf, name: String, source: serde_json::Error },
}

/// The one writing connection, with the lock on the file.
#[derive(Debug)]
pub struct Disk {
    connection: Connection,
    path: PathBuf,
    // After the connection, so that the next holder finds a closed file.
    _lock: Lock,
}

/// What was found in the file.
#[derive(Debug, Default)]
pub struct Contents {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
    pub compacted: u64,
}

impl Disk {
    /// Opens or creates the file, takes its lock and checks its version.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let lock = lock(path)?;
        let sqlite = |source| DiskError::Sqlite { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(sqlite)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(sqlite)?;
        let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sqlite)?;
        if found > SCHEMA_VERSION {
            return Err(DiskError::Newer { path: path.to_owned(), found, supported: SCHEMA_VERSION });
        }
        connection.pragma_update(None, "journal_mode", "WAL").map_err(sqlite)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
        connection.pragma_update(None, "cache_size", -1024).map_err(sqlite)?;
        if found == 0 {
            create(&mut connection).map_err(sqlite)?;
        }
        Ok(Self { connection, path: path.to_owned(), _lock: lock })
    }

    /// Reads every object and the counters.
    pub fn load(&self) -> Result<Contents, DiskError> {
        let sqlite = |source| DiskError::Sqlite { path: self.path.clone(), source };
        let mut contents = Contents {
            revision: self.counter("revision").map_err(sqlite)?,
            compacted: self.counter("compacted").map_err(sqlite)?,
            objects: Vec::new(),
        };
        let sql = "SELECT resource, namespace, name, revision, body FROM objects";
        let mut statement = self.connection.prepare(sql).map_err(sqlite)?;
        let mut rows = statement.query([]).map_err(sqlite)?;
        let mut resource: Arc<str> = "".into();
        while let Some(row) = rows.next().map_err(sqlite)? {
            let (key, revision, body) = object_row(row, &mut resource).map_err(sqlite)?;
            let name = key.name.clone();
            let object = Object::from_body(key, revision, body.into()).map_err(|source| DiskError::Damaged {
                path: self.path.clone(),
                name,
                source,
            })?;
            contents.objects.push(Arc::new(object));
        }
        Ok(contents)
    }

    fn counter(&self, name: &str) -> rusqlite::Result<u64> {
        let value: Option<i64> = self
            .connection
            .query_row("SELECT value FROM counters WHERE name = ?1", [name], |row| row.get(0))
            .optional()?;
        Ok(unsigned(value.unwrap_or_default()))
    }

    /// Makes a batch durable: all of it is on disk when this returns, or none.
    pub fn commit(&mut self, events: &[Arc<Event>]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for event in events {
            write_event(&transaction, event)?;
        }
        if let Some(last) = events.last() {
            set_counter(&transaction, "revision", last.object.revision)?;
        }
        transaction.commit()
    }

    /// Forgets history up to and with `revision`.
    pub fn compact(&mut self, revision: u64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute("DELETE FROM history WHERE revision <= ?1", [signed(revision)])?;
        set_counter(&transaction, "compacted", revision)?;
        transaction.commit()
    }
}

/// A second connection that only reads history.
#[derive(Debug)]
pub struct HistoryReader {
    connection: Connection,
}

impl HistoryReader {
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let sqlite = |source| DiskError::Sqlite { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(sqlite)?;
        connection.pragma_update(None, "cache_size", -256).map_err(sqlite)?;
        Ok(Self { connection })
    }

    /// Events of a resource with `after < revision <= until`, oldest first, at most `limit`.
    pub fn events(&self, resource: &str, after: u64, until: u64, limit: u32) -> rusqlite::Result<Vec<Arc<Event>>> {
        let sql = "SELECT resource, namespace, name, revision, body, kind, previous_revision, previous FROM history
                   WHERE resource = ?1 AND revision > ?2 AND revision <= ?3 ORDER BY revision LIMIT ?4";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![resource, signed(after), signed(until), limit])?;
        let mut events = Vec::new();
        let mut shared: Arc<str> = resource.into();
        while let Some(row) = rows.next()? {
            events.push(Arc::new(event_row(row, &mut shared)?));
        }
        Ok(events)
    }
}

fn lock(path: &Path) -> Result<Lock, DiskError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |source| DiskError::Folder { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let lock = Lock::take(&path.with_extension("lock")).map_err(failed)?;
    lock.ok_or_else(|| DiskError::InUse { path: path.to_owned() })
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

fn write_event(transaction: &Transaction<'_>, event: &Event) -> rusqlite::Result<()> {
    let object = &event.object;
    let key = &object.key;
    if event.kind == EventKind::Deleted {
        transaction
            .prepare_cached("DELETE FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3")?
            .execute(params![&*key.resource, key.namespace, key.name])?;
    } else {
        transaction.prepare_cached("INSERT OR REPLACE INTO objects VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
            &*key.resource,
            key.namespace,
            key.name,
            signed(object.revision),
            &*object.body
        ])?;
    }
    transaction.prepare_cached("INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(params![
        signed(object.revision),
        event.kind as i64,
        &*key.resource,
        key.namespace,
        key.name,
        &*object.body,
        event.previous.as_ref().map(|previous| signed(previous.revision)),
        event.previous.as_ref().map(|previous| &*previous.body),
    ])?;
    Ok(())
}

fn set_counter(transaction: &Transaction<'_>, name: &str, value: u64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO counters VALUES (?1, ?2)")?
        .execute(params![name, signed(value)])?;
    Ok(())
}

fn object_row(row: &rusqlite::Row<'_>, resource: &mut Arc<str>) -> rusqlite::Result<(Key, u64, Vec<u8>)> {
    let name = row.get_ref(0)?.as_str()?;
    if **resource != *name {
        *resource = name.into();
    }
    let key = Key { resource: resource.clone(), namespace: row.get(1)?, name: row.get(2)? };
    Ok((key, unsigned(row.get(3)?), row.get(4)?))
}

fn event_row(row: &rusqlite::Row<'_>, resource: &mut Arc<str>) -> rusqlite::Result<Event> {
    let (key, revision, body) = object_row(row, resource)?;
    let kind = match row.get::<_, i64>(5)? {
        0 => EventKind::Added,
        1 => EventKind::Modified,
        _ => EventKind::Deleted,
    };
    let previous: Option<Vec<u8>> = row.get(7)?;
    let previous_revision = unsigned(row.get::<_, Option<i64>>(6)?.unwrap_or_default());
    let parse = |key: Key, revision, body: Bytes| {
        Object::from_body(key, revision, body)
            .map(Arc::new)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Blob, Box::new(error)))
    };
    let previous = previous.map(|body| parse(key.clone(), previous_revision, body.into())).transpose()?;
    Ok(Event { kind, object: parse(key, revision, body.into())?, previous })
}

/// `SQLite` integers are signed; revisions never come near the limit.
fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}
