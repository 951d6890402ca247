//! Validation of an object against its schema: types, value validations, list kinds, then rules.

mod checks;
mod message;

use serde_json::Value;

use crate::cel;
use crate::depth::{MAX_VALUE_DEPTH, too_deep};
use crate::error::{FieldError, FieldErrorKind};
use crate::node::{ListKind, Node, Type};
use crate::path;

/// A hostile object could have a million errors; nobody reads more than these.
const MAX_ERRORS: usize = 200;

/// Everything that is wrong with the object, rules included when the rest is right.
pub(crate) fn validate(node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if too_deep(value) {
        let message = format!("Invalid value: nests deeper than the {MAX_VALUE_DEPTH} levels the API server can store");
        return vec![FieldError { path: path::shown(""), kind: FieldErrorKind::Invalid, message }];
    }
    let old = old.filter(|old| !too_deep(old));
    let mut walk = Walk { errors: Vec::new(), rules: false };
    walk.node(node, value, old, "");
    if node.has_rules {
        if walk.errors.is_empty() {
            walk.rules = true;
            walk.node(node, value, old, "");
        } else {
            walk.errors.push(message::rules_not_checked());
        }
    }
    walk.errors
}

/// As [`validate`], without rules and old object; for defaults in schemas.
pub(crate) fn values(node: &Node, value: &Value) -> Vec<FieldError> {
    let mut walk = Walk { errors: Vec::new(), rules: false };
    walk.node(node, value, None, "");
    walk.errors
}

struct Walk {
    errors: Vec<FieldError>,
    /// The second pass: rules alone.
    rules: bool,
}

impl Walk {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, at: &str) {
        if self.errors.len() >= MAX_ERRORS || (self.rules && !node.has_rules) {
            return;
        }
        let before = self.errors.len();
        if self.rules {
            cel::evaluate(node, value, old, at, &mut self.errors);
        } else if !self.own(node, value, at) {
            self.forgive_unchanged(before, value, old);
            return;
        }
        self.children(node, value, old, at);
        if !self.rules {
            self.forgive_unchanged(before, value, old);
        }
    }

    /// Ratcheting: a value that was stored before the rule may stay as it is.
    fn forgive_unchanged(&mut self, before: usize, value: &Value, old: Option<&Value>) {
        if self.errors.len() > before && old == Some(value) {
            self.errors.truncate(before);
        }
    }

    /// Checks the value itself; false when it has the wrong type, so that nothing more is worth saying.
    fn own(&mut self, node: &Node, value: &Value, at: &str) -> bool {
        if value.is_null() && (node.nullable || node.kind == Type::Any) {
            return true;
        }
        if !checks::has_type(node.kind, value) {
            self.errors.push(message::wrong_type(at, node.kind, value));
            return false;
        }
        checks::check(&node.checks, value, at, &mut self.errors);
        self.duplicates(node, value, at);
        true
    }

    fn duplicates(&mut self, node: &Node, value: &Value, at: &str) {
        let Value::Array(list) = value else { return };
        let mut seen = std::collections::HashSet::new();
        for (index, item) in list.iter().enumerate() {
            let identity = match &node.list {
                ListKind::Atomic => return,
                ListKind::Set => item.clone(),
                ListKind::Map(keys) => identity(node.element(), keys, item),
            };
            if !seen.insert(crate::apply::canonical(&identity)) {
                self.errors.push(message::duplicate(&path::index(at, index), &identity));
            }
        }
    }

    fn children(&mut self, node: &Node, value: &Value, old: Option<&Value>, at: &str) {
        match value {
            Value::Object(map) => {
                for (name, item) in map {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(child) = node.properties.get(name) {
                        self.node(child, item, old, &path::field(at, name));
                    } else if let Some(child) = node.additional.as_deref() {
                        self.node(child, item, old, &path::field(at, name));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = node.items.as_deref() else { return };
                let correlate = Correlation::new(node, old);
                for (index, item) in list.iter().enumerate() {
                    self.node(items, item, correlate.old(items, item), &path::index(at, index));
                }
            }
            _ => {}
        }
    }
}

/// The keys of a list map's element, defaults included.
fn identity(element: &Node, keys: &[String], item: &Value) -> Value {
    let value = |key: &String| {
        let default = || element.properties.get(key).and_then(|field| field.default.clone());
        item.get(key).cloned().or_else(default).map(|value| (key.clone(), value))
    };
    Value::Object(keys.iter().filter_map(value).collect())
}

/// Finds the old element of a list map's element; elements of other lists have no identity.
struct Correlation<'a> {
    keys: &'a [String],
    old: std::collections::HashMap<String, &'a Value>,
}

impl<'a> Correlation<'a> {
    fn new(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (ListKind::Map(keys), Some(Value::Array(list))) = (&node.list, old) else {
            return Self { keys: &[], old: std::collections::HashMap::new() };
        };
        let entry = |item: &'a Value| (crate::apply::canonical(&identity(node.element(), keys, item)), item);
        Self { keys, old: list.iter().map(entry).collect() }
    }

    fn old(&self, element: &Node, item: &Value) -> Option<&'a Value> {
        if self.old.is_empty() {
            return None;
        }
        self.old.get(&crate::apply::canonical(&identity(element, self.keys, item))).copied()
    }
}
