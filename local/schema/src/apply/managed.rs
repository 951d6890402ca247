//! `metadata.managedFields`: who owns what.

use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use super::{Manager, Operation};

/// Kubernetes keeps this many updaters apart; the oldest beyond them are folded together.
const MAX_UPDATERS: usize = 10;

/// The manager the oldest updaters are folded into.
const ANCIENT: &str = "ancient-changes";

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub manager: Manager,
    pub time: Option<String>,
    pub fields: FieldSet,
}

/// Whether two writers are one manager: an applier stays itself when it moves to another version.
pub(super) fn is_same(left: &Manager, right: &Manager) -> bool {
    left.name == right.name
        && left.operation == right.operation
        && left.subresource == right.subresource
        && (left.operation == Operation::Apply || left.api_version == right.api_version)
}

/// Reads the entries of an object; none when any of them is malformed.
pub(super) fn decode(object: &Value) -> Option<Vec<Entry>> {
    match managed_fields(object) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(entry).collect(),
    }
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Whether the writer asks to forget all managers: one empty entry.
pub(super) fn asks_reset(object: &Value) -> bool {
    managed_fields(object).is_some_and(|list| *list == json!([{}]))
}

fn entry(entry: &Value) -> Option<Entry> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    Some(Entry {
        manager: Manager {
            name: text("manager").unwrap_or_default().to_owned(),
            operation,
            subresource: text("subresource").filter(|name| !name.is_empty()).map(str::to_owned),
            api_version: text("apiVersion")?.to_owned(),
        },
        time: text("time").map(str::to_owned),
        fields: FieldSet::decode(entry.get("fieldsV1")?).ok()?,
    })
}

/// Writes the entries into an object, in Kubernetes' order; without entries the field goes.
pub(super) fn encode(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|left, right| {
        let order = |entry: &Entry| {
            let manager = entry.manager.clone();
            (manager.operation, entry.time.clone(), manager.name, manager.api_version, manager.subresource)
        };
        order(left).cmp(&order(right))
    });
    let list: Vec<Value> = entries.iter().map(written).collect();
    put(object, (!list.is_empty()).then_some(Value::Array(list)));
}

/// Sets or takes away the managed fields of an object.
pub(super) fn put(object: &mut Value, list: Option<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    let Some(list) = list else {
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
        }
        return;
    };
    let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), list);
    }
}

/// The managed fields of an object as they are.
pub(super) fn raw(object: &Value) -> Option<Value> {
    managed_fields(object).cloned()
}

/// The object without its managed fields.
pub(super) fn stripped(object: &Value) -> Value {
    let mut object = object.clone();
    put(&mut object, None);
    object
}

fn written(entry: &Entry) -> Value {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
    put("manager", entry.manager.name.clone().into());
    put("operation", entry.manager.operation.word().into());
    put("apiVersion", entry.manager.api_version.clone().into());
    if let Some(time) = &entry.time {
        put("time", time.clone().into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.fields.encode());
    if let Some(subresource) = &entry.manager.subresource {
        put("subresource", subresource.clone().into());
    }
    Value::Object(map)
}

/// Folds the oldest updaters together when there are too many, so that objects do not grow without end.
pub(super) fn cap_updaters(entries: &mut Vec<Entry>) {
    let is_updater = |entry: &Entry| entry.manager.operation == Operation::Update;
    loop {
        let oldest = entries.iter().filter(|entry| is_updater(entry) && entry.manager.name != ANCIENT);
        let Some(oldest) = oldest.min_by_key(|entry| entry.time.clone()).cloned() else { return };
        if entries.iter().filter(|entry| is_updater(entry)).count() <= MAX_UPDATERS {
            return;
        }
        entries.retain(|entry| *entry != oldest);
        let manager = Manager { name: ANCIENT.to_owned(), ..oldest.manager };
        match entries.iter_mut().find(|entry| is_same(&entry.manager, &manager)) {
            Some(ancient) => {
                ancient.fields = ancient.fields.union(&oldest.fields);
                ancient.time = ancient.time.take().max(oldest.time);
            }
            None => entries.push(Entry { manager, time: oldest.time, fields: oldest.fields }),
        }
    }
}
