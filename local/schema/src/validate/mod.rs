//! Validation of an object against its schema: types, value validations, list kinds, then rules.

mod checks;
pub(crate) mod message;

use std::collections::HashMap;

use serde_json::Value;

use crate::cel;
use crate::depth::{MAX_VALUE_DEPTH, too_deep};
use crate::error::{FieldError, FieldErrorKind};
use crate::node::{ListKind, Node, Type};
use crate::path;

/// A hostile object could have a million errors; nobody reads more than these.
const MAX_ERRORS: usize = 200;

/// Everything that is wrong with the object; rules only where no error says that the object has another shape.
pub(crate) fn validate(node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if too_deep(value) {
        let message = format!("Invalid value: nests deeper than the {MAX_VALUE_DEPTH} levels the API server can store");
        return vec![FieldError { path: path::shown(""), kind: FieldErrorKind::Invalid, message }];
    }
    let old = old.filter(|old| !too_deep(old));
    let mut errors = pass(Pass::Values, node, value, old);
    // Ratcheting: a stored object with duplicates may stay as it is.
    if old.is_none_or(|old| pass(Pass::Lists, node, old, None).is_empty()) {
        errors.extend(pass(Pass::Lists, node, value, None));
    }
    if node.has_rules {
        if errors.iter().any(|error| blocks_rules(error.kind)) {
            errors.push(message::rules_not_checked());
        } else {
            errors.extend(pass(Pass::Rules, node, value, old));
        }
    }
    errors
}

/// As [`validate`], without rules and old object; for defaults in schemas.
pub(crate) fn values(node: &Node, value: &Value) -> Vec<FieldError> {
    let mut errors = pass(Pass::Values, node, value, None);
    errors.extend(pass(Pass::Lists, node, value, None));
    errors
}

/// Rules are written for objects that have the schema's types, fields and sizes.
fn blocks_rules(kind: FieldErrorKind) -> bool {
    use FieldErrorKind::{
        Duplicate, Forbidden, Invalid, NotFound, NotSupported, Required, TooLong, TooMany, TypeInvalid,
    };
    match kind {
        NotSupported | Required | TooLong | TooMany | TypeInvalid => true,
        Invalid | Forbidden | Duplicate | NotFound => false,
    }
}

fn pass(pass: Pass, node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut walk = Walk { errors: Vec::new(), pass };
    walk.node(node, value, old, "");
    walk.errors
}

/// What one walk over the object looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Types and value validations.
    Values,
    /// Duplicates in sets and maps.
    Lists,
    Rules,
}

struct Walk {
    errors: Vec<FieldError>,
    pass: Pass,
}

impl Walk {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, at: &str) {
        if self.errors.len() >= MAX_ERRORS || (self.pass == Pass::Rules && !node.has_rules) {
            return;
        }
        let before = self.errors.len();
        match self.pass {
            Pass::Values => {
                if self.own(node, value, at) {
                    self.children(node, value, old, at);
                }
                self.forgive_unchanged(before, value, old);
                return;
            }
            Pass::Lists => self.duplicates(node, value, at),
            Pass::Rules => cel::evaluate(node, value, old, at, &mut self.errors),
        }
        self.children(node, value, old, at);
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
            checks::enumeration(&node.checks, value, at, &mut self.errors);
            return true;
        }
        if !checks::has_type(node.kind, value) {
            self.errors.push(message::wrong_type(at, node.kind, node.checks.format, value));
            checks::enumeration(&node.checks, value, at, &mut self.errors);
            self.number(node, value, at);
            return false;
        }
        if node.kind == Type::Integer {
            checks::range(&node.checks, value, at, &mut self.errors);
        }
        checks::check(&node.checks, value, at, &mut self.errors);
        true
    }

    /// A number is held against its bounds even where it is none of the integers that are wanted.
    fn number(&mut self, node: &Node, value: &Value, at: &str) {
        if let (Type::Integer, Value::Number(number)) = (node.kind, value) {
            checks::range(&node.checks, value, at, &mut self.errors);
            checks::numeric(&node.checks, number, at, &mut self.errors);
        }
    }

    /// Each repeated value is named once, at its second place.
    fn duplicates(&mut self, node: &Node, value: &Value, at: &str) {
        let Value::Array(list) = value else { return };
        if let (ListKind::Map(_), Some(index)) = (&node.list, list.iter().position(|item| !is_element(item))) {
            self.errors.push(message::no_map_element(&path::index(at, index), &list[index]));
            return;
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (index, item) in list.iter().enumerate() {
            let identity = match &node.list {
                ListKind::Atomic => return,
                ListKind::Set => item.clone(),
                ListKind::Map(keys) => identity(node.element(), keys, item),
            };
            let times = seen.entry(crate::apply::canonical(&identity)).or_default();
            *times += 1;
            if *times == 2 {
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

/// What a list map may hold.
fn is_element(item: &Value) -> bool {
    item.is_object() || item.is_null()
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
    old: HashMap<String, &'a Value>,
}

impl<'a> Correlation<'a> {
    fn new(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (ListKind::Map(keys), Some(Value::Array(list))) = (&node.list, old) else {
            return Self { keys: &[], old: HashMap::new() };
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
