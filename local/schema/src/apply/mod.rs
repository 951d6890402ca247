//! Server-side apply and the bookkeeping of field managers.
//!
//! A write through a subresource is given objects in which only that subresource's fields differ: the server resets
//! the rest before (and drops `status` from what is applied to the main resource).

mod compare;
mod conflict;
mod element;
mod encode;
mod extract;
mod fields;
mod last_applied;
mod managed;
mod merge;
mod prune;
mod remove;
mod update;
mod view;

use serde_json::{Map, Value};

use crate::Schema;
use crate::depth::{MAX_VALUE_DEPTH, too_deep};
use compare::Changes;
use managed::Entry;

pub use conflict::Conflict;
pub(crate) use element::canonical;
pub use encode::FieldsError;
pub use fields::FieldSet;
pub use update::track_update;

/// The owner of what was stored before any manager was known.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, replace or patch.
    Update,
}

impl Operation {
    /// The word in managed fields.
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager {
    /// The field manager's name.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The subresource written through, such as `status`.
    pub subresource: Option<String>,
    /// The apiVersion of the object as written.
    pub api_version: String,
}

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields with other values (HTTP 409).
    #[error("{}", conflict::text(.0))]
    Conflicts(Vec<Conflict>),
    /// The applied object is not one that can be applied (HTTP 400).
    #[error("{0}")]
    Invalid(String),
}

/// Applies `applied` to `live` as `manager`; the result carries the new `metadata.managedFields`.
///
/// Equal to `live` when the apply changes nothing. `now` is an RFC 3339 time with seconds.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager,
    force: bool,
    now: &str,
) -> Result<Value, ApplyError> {
    check(live, applied)?;
    let node = schema.root();
    let fields = extract::extract(node, applied).map_err(|why| ApplyError::Invalid(untyped(applied, &why)))?;
    let nothing = Value::Object(Map::new());
    let old = live.map_or(nothing, managed::stripped);
    let entries = live.map(|live| stored_entries(schema, live, manager)).unwrap_or_default();
    let previous = entries.iter().find(|entry| managed::is_same(&entry.manager, manager)).cloned();
    let others: Vec<Entry> = entries.into_iter().filter(|entry| !managed::is_same(&entry.manager, manager)).collect();

    let merged = merge::merge(node, Some(&old), applied);
    let owned = others.iter().fold(fields.clone(), |all, entry| all.union(&entry.fields));
    let last = previous.as_ref().map(|entry| entry.fields.clone()).unwrap_or_default();
    let mut result = merged;
    if !last.is_empty() {
        let pruned = prune::prune(node, &result, &last, &owned);
        // An applied list or map without elements owns nothing, so pruning may take it; it is wanted all the same.
        result = merge::merge(node, Some(&pruned), applied);
    }

    let changes = Changes::between(node, &old, &result);
    let movable = live.map(|live| last_applied::movable(node, live, &manager.name)).unwrap_or_default();
    let conflicts = conflict::conflicts(&others, manager, &changes.written().difference(&movable));
    if !conflicts.is_empty() && !force {
        return Err(ApplyError::Conflicts(conflicts));
    }
    let unchanged = old == result;
    let mut entries = update::lose(others, &changes);
    let kept = previous.filter(|entry| unchanged && entry.fields == fields && entry.manager == *manager);
    entries.push(kept.unwrap_or_else(|| Entry { manager: manager.clone(), time: Some(now.to_owned()), fields }));
    last_applied::remember(&mut result, applied, &manager.name);
    write_entries(&mut result, live, entries);
    Ok(result)
}

/// That an applied object does not fit its schema; `why` begins with the place.
pub fn untyped(applied: &Value, why: &str) -> String {
    let text = |place: &str| applied.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name, kind) = (text("/metadata/namespace"), text("/metadata/name"), text("/kind"));
    let api_version = text("/apiVersion");
    let group = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!("failed to create typed patch object ({namespace}/{name}; {group}, Kind={kind}): {why}")
}

fn check(live: Option<&Value>, applied: &Value) -> Result<(), ApplyError> {
    let invalid = |text: String| Err(ApplyError::Invalid(text));
    if too_deep(applied) || live.is_some_and(too_deep) {
        return invalid(format!("the object nests deeper than {MAX_VALUE_DEPTH} levels"));
    }
    let Some(map) = applied.as_object() else {
        return invalid("the applied object must be a JSON object".to_owned());
    };
    let metadata = map.get("metadata");
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        return invalid("metadata must be a JSON object".to_owned());
    }
    if metadata.and_then(|metadata| metadata.get("managedFields")).is_some_and(|list| *list != Value::Array(vec![])) {
        return invalid("metadata.managedFields must be nil".to_owned());
    }
    Ok(())
}

/// The managers of a stored object; what nobody is known to own was written before the first apply.
fn stored_entries(schema: &Schema, live: &Value, manager: &Manager) -> Vec<Entry> {
    let entries = managed::decode(live).unwrap_or_default();
    if !entries.is_empty() {
        return entries;
    }
    let fields = extract::extract_stored(schema.root(), &managed::stripped(live)).without_identity();
    let before = Manager {
        name: BEFORE_FIRST_APPLY.to_owned(),
        operation: Operation::Update,
        subresource: None,
        api_version: manager.api_version.clone(),
    };
    vec![Entry { manager: before, time: None, fields }]
}

/// Writes the entries; entries equal to the stored ones keep the stored bytes.
fn write_entries(result: &mut Value, live: Option<&Value>, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    let stored = live.and_then(managed::decode);
    let same = stored
        .is_some_and(|stored| stored.len() == entries.len() && entries.iter().all(|entry| stored.contains(entry)));
    if same {
        managed::put(result, live.and_then(managed::raw));
    } else {
        managed::encode(result, entries);
    }
}
