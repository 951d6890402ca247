//! Lists in a strategic merge patch.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::PatchError;
use super::strategic::{Directive, directive, malformed, merge_maps, plain};
use crate::apply::canonical;
use crate::node::Node;

/// Merges a patch's list into a list with the strategy `merge`.
pub(super) fn merge(node: &Node, target: &[Value], patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    match node.strategy.merge_key.as_deref() {
        Some(key) => by_key(node, key, target, patch),
        None => Ok(scalars(target, patch)),
    }
}

fn scalars(target: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    let united: Vec<Value> = target.iter().chain(patch).filter(|item| seen.insert(canonical(item))).cloned().collect();
    arrange(united, patch, target, None)
}

fn by_key(node: &Node, key: &str, target: &[Value], patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    let mut changes: Vec<&Value> = Vec::new();
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in patch {
        let map =
            item.as_object().ok_or_else(|| malformed("an element of a list that merges by key must be an object"))?;
        match directive(map)? {
            Some(Directive::Replace) => replace = true,
            Some(Directive::Delete) => {
                gone.insert(identity(item, key)?);
            }
            Some(Directive::Merge) | None => {
                identity(item, key)?;
                changes.push(item);
            }
        }
    }
    if replace {
        return Ok(changes.into_iter().map(plain).collect());
    }
    let mut merged: Vec<Value> = target.iter().filter(|item| !is_in(&gone, item, key)).cloned().collect();
    let mut places = places(&merged, key);
    for change in &changes {
        let identity = identity(change, key)?;
        let map = change.as_object().expect("the loop above refused all that are no objects");
        let Some(place) = places.get(&identity).copied() else {
            let element = merge_maps(node.element(), serde_json::Map::new(), map)?;
            places.insert(identity, merged.len());
            merged.push(Value::Object(element));
            continue;
        };
        if let Some(Value::Object(old)) = merged.get(place) {
            merged[place] = Value::Object(merge_maps(node.element(), old.clone(), map)?);
        }
    }
    let order: Vec<Value> = changes.into_iter().cloned().collect();
    Ok(arrange(merged, &order, target, Some(key)))
}

fn identity(item: &Value, key: &str) -> Result<String, PatchError> {
    item.get(key)
        .map(canonical)
        .ok_or_else(|| malformed(&format!("an element does not contain the declared merge key {key:?}")))
}

fn is_in(set: &HashSet<String>, item: &Value, key: &str) -> bool {
    item.get(key).is_some_and(|value| set.contains(&canonical(value)))
}

fn places(list: &[Value], key: &str) -> HashMap<String, usize> {
    let place = |(place, item): (usize, &Value)| item.get(key).map(|value| (canonical(value), place));
    list.iter().enumerate().filter_map(place).collect()
}

/// Puts the elements the patch names into the patch's order and weaves the others in by where they stood before.
pub(super) fn arrange(list: Vec<Value>, patch: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let name = |item: &Value| match key {
        Some(key) => item.get(key).map(canonical).unwrap_or_default(),
        None => canonical(item),
    };
    let rank = |list: &[Value]| -> HashMap<String, usize> {
        list.iter().enumerate().rev().map(|(place, item)| (name(item), place)).collect()
    };
    let (wanted, stood) = (rank(patch), rank(before));
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        list.into_iter().partition(|item| wanted.contains_key(&name(item)));
    named.sort_by_key(|item| wanted.get(&name(item)).copied());
    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for other in others {
        let place = stood.get(&name(&other)).copied();
        // A named element goes first unless both stood in the list and the other stood before it.
        while let Some(next) = named.next_if(|next| {
            let next_place = stood.get(&name(next)).copied();
            !(place.is_some() && next_place.is_some() && place < next_place)
        }) {
            result.push(next);
        }
        result.push(other);
    }
    result.extend(named);
    result
}
