//! How a value looks to field ownership: a leaf, a map of fields, or a list of identified elements.

use serde_json::{Map, Value};

use super::element::Element;
use crate::node::{ListKind, Node};

/// A value as ownership sees it.
pub(super) enum View<'v> {
    /// Owned as a whole: scalars, atomic lists and maps.
    Leaf,
    /// Null or nothing where a map or a list could be.
    Nothing,
    /// Owned field by field.
    Map(&'v Map<String, Value>),
    /// Owned element by element.
    List(Vec<(Element, &'v Value)>),
}

impl<'v> View<'v> {
    /// Looks at a value; a list whose elements have no identity counts as atomic.
    pub(super) fn of(node: &Node, value: Option<&'v Value>) -> Self {
        Self::checked(node, value).unwrap_or(Self::Leaf)
    }

    /// As [`View::of`], with the reason when a list's elements cannot be told apart.
    pub(super) fn checked(node: &Node, value: Option<&'v Value>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(Self::Nothing),
            Some(Value::Object(map)) if !node.atomic_map => Ok(Self::Map(map)),
            Some(Value::Array(list)) if node.list != ListKind::Atomic => elements(node, list).map(Self::List),
            Some(_) => Ok(Self::Leaf),
        }
    }
}

fn elements<'v>(node: &Node, list: &'v [Value]) -> Result<Vec<(Element, &'v Value)>, String> {
    list.iter().enumerate().map(|(index, item)| identify(node, index, item).map(|element| (element, item))).collect()
}

fn identify(node: &Node, index: usize, item: &Value) -> Result<Element, String> {
    let ListKind::Map(keys) = &node.list else { return Ok(Element::value(item)) };
    if !item.is_object() {
        return Err(format!("[{index}]: an element of an associative list must be an object"));
    }
    let value = |key: &String| {
        let default = || node.element().properties.get(key).and_then(|field| field.default.as_ref());
        item.get(key).or_else(default).map(|value| (key.clone(), value.clone()))
    };
    let found: Map<String, Value> = keys.iter().filter_map(value).collect();
    if found.is_empty() {
        let keys = keys.join(", ");
        return Err(format!("[{index}]: an element of an associative list omits its key ({keys})"));
    }
    Ok(Element::key(found))
}
