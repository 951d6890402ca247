//! The bookkeeping of plain writes: create, replace, patch.

use serde_json::{Map, Value};

use super::Manager;
use super::compare::Changes;
use super::managed::{self, Entry};
use crate::Schema;
use crate::depth::too_deep;

/// Gives `new` the managed fields that result when `manager` writes it over `live`.
///
/// A writer that sends no managed fields, or malformed ones, does not lose them; one empty entry resets them.
pub fn track_update(schema: &Schema, live: Option<&Value>, mut new: Value, manager: &Manager, now: &str) -> Value {
    if too_deep(&new) || live.is_some_and(too_deep) {
        return new;
    }
    let nothing = Value::Object(Map::new());
    let entries = entries(live, &new);
    let old = live.map_or(nothing, managed::stripped);
    let changes = Changes::between(schema.root(), &old, &managed::stripped(&new));
    if changes.is_empty() {
        keep(live, &mut new, entries);
        return new;
    }
    let mut entries = lose(entries, &changes);
    gain(&mut entries, &changes, manager, now);
    managed::cap_updaters(&mut entries);
    managed::encode(&mut new, entries);
    new
}

fn entries(live: Option<&Value>, new: &Value) -> Vec<Entry> {
    if managed::asks_reset(new) {
        return Vec::new();
    }
    match managed::decode(new) {
        Some(entries) if !entries.is_empty() => entries,
        _ => live.and_then(managed::decode).unwrap_or_default(),
    }
}

/// A write that changes nothing leaves the stored bytes as they are.
fn keep(live: Option<&Value>, new: &mut Value, entries: Vec<Entry>) {
    match live {
        Some(live) if managed::decode(live).is_some_and(|stored| stored == entries) => {
            managed::put(new, managed::raw(live));
        }
        _ => managed::encode(new, entries),
    }
}

/// Every manager loses what was written or removed.
pub(super) fn lose(entries: Vec<Entry>, changes: &Changes) -> Vec<Entry> {
    let lost = changes.written().union(&changes.removed);
    let rest = |entry: Entry| Entry { fields: entry.fields.difference(&lost), ..entry };
    entries.into_iter().map(rest).filter(|entry| !entry.fields.is_empty()).collect()
}

fn gain(entries: &mut Vec<Entry>, changes: &Changes, manager: &Manager, now: &str) {
    let written = changes.written();
    if written.is_empty() {
        return;
    }
    let time = Some(now.to_owned());
    match entries.iter_mut().find(|entry| managed::is_same(&entry.manager, manager)) {
        Some(own) => {
            own.fields = own.fields.union(&written);
            own.time = time;
        }
        None => entries.push(Entry { manager: manager.clone(), time, fields: written }),
    }
}
