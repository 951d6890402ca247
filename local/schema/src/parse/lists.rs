//! `x-kubernetes-list-type`, `-list-map-keys` and `-map-type`.

use serde_json::{Map, Value};

use super::keyword::{text, words};
use super::{Mode, Place};
use crate::SchemaError;
use crate::node::{ListKind, Node, Type};

pub(super) fn kinds(map: &Map<String, Value>, into: &mut Node, place: &Place) -> Result<(), SchemaError> {
    into.atomic_map = atomic_map(map, into, place)?;
    let keys = words(map, "x-kubernetes-list-map-keys", place)?;
    let list_type = text(map, "x-kubernetes-list-type");
    if place.mode == Mode::Custom {
        check_use(into, list_type, &keys, place)?;
    }
    into.list = match list_type {
        None | Some("atomic") => ListKind::Atomic,
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(keys),
        Some(other) => {
            let known = r#""atomic", "map", "set""#;
            let message = format!("Unsupported value: \"{other}\": supported values: {known}");
            return Err(place.error("x-kubernetes-list-type", message));
        }
    };
    if place.mode == Mode::Custom {
        check_elements(into, place)?;
    }
    Ok(())
}

fn atomic_map(map: &Map<String, Value>, node: &Node, place: &Place) -> Result<bool, SchemaError> {
    const KEYWORD: &str = "x-kubernetes-map-type";
    let Some(word) = text(map, KEYWORD) else { return Ok(false) };
    if node.kind != Type::Object && place.mode == Mode::Custom {
        return Err(place.error("type", "Invalid value: must be object if x-kubernetes-map-type is specified"));
    }
    match word {
        "atomic" => Ok(true),
        "granular" => Ok(false),
        other => {
            let message = format!("Unsupported value: \"{other}\": supported values: \"atomic\", \"granular\"");
            Err(place.error(KEYWORD, message))
        }
    }
}

fn check_use(node: &Node, list_type: Option<&str>, keys: &[String], place: &Place) -> Result<(), SchemaError> {
    if list_type.is_some() && node.kind != Type::Array {
        return Err(place.error("type", "Invalid value: must be array if x-kubernetes-list-type is specified"));
    }
    if list_type == Some("map") && keys.is_empty() {
        let message = "Required value: must not be empty if x-kubernetes-list-type is map";
        return Err(place.error("x-kubernetes-list-map-keys", message));
    }
    if list_type != Some("map") && !keys.is_empty() {
        let message = "Invalid value: must be map if x-kubernetes-list-map-keys is non-empty";
        return Err(place.error("x-kubernetes-list-type", message));
    }
    Ok(())
}

fn check_elements(node: &Node, place: &Place) -> Result<(), SchemaError> {
    let element = node.element();
    match &node.list {
        ListKind::Atomic => Ok(()),
        ListKind::Set => {
            let atomic = element.kind.is_scalar()
                || (element.kind == Type::Object && element.atomic_map)
                || (element.kind == Type::Array && element.list == ListKind::Atomic);
            if atomic && !element.nullable {
                Ok(())
            } else {
                Err(place.error("items", "Invalid value: elements of a set must be atomic and not nullable"))
            }
        }
        ListKind::Map(keys) => keys.iter().try_for_each(|key| check_key(element, key, place)),
    }
}

fn check_key(element: &Node, key: &str, place: &Place) -> Result<(), SchemaError> {
    let at = "x-kubernetes-list-map-keys";
    if element.kind != Type::Object {
        return Err(place.error("items.type", "Invalid value: must be object if x-kubernetes-list-type is map"));
    }
    let Some(field) = element.properties.get(key) else {
        return Err(place.error(at, format!("Invalid value: {key:?}: must be a property of the items")));
    };
    if !field.kind.is_scalar() {
        return Err(place.error(at, format!("Invalid value: {key:?}: must be a scalar property of the items")));
    }
    if field.default.is_none() && !element.checks.required.iter().any(|name| name == key) {
        let message = format!("Required value: the property {key:?} must be required or have a default, it is a key");
        return Err(place.error(at, message));
    }
    Ok(())
}
