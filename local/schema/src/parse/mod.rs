//! Parsing of `OpenAPI` v3 schemas into nodes, with the structural rules of Kubernetes.

mod branch;
mod implicit;
mod keyword;
mod lists;
mod rules;
mod scalar;

use serde_json::{Map, Value};

use crate::SchemaError;
use crate::depth::MAX_SCHEMA_DEPTH;
use crate::node::{Node, Strategy, Type};
use keyword::{flag, object, text};

pub(crate) use implicit::permissive;

/// Whose schema is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A custom resource: structural rules are demanded.
    Custom,
    /// A built-in kind as published: not structural, but trusted.
    Builtin,
}

/// A place in the schema while parsing.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    depth: usize,
    mode: Mode,
    /// Whether the old value of this place can be found in the old object.
    correlatable: bool,
}

impl Place {
    fn root(mode: Mode) -> Self {
        Self { path: String::new(), depth: 0, mode, correlatable: true }
    }

    fn below(&self, step: &str) -> Self {
        let path = if self.path.is_empty() { step.to_owned() } else { format!("{}.{step}", self.path) };
        Self { path, depth: self.depth + 1, ..*self }
    }

    fn error(&self, keyword: &str, message: impl Into<String>) -> SchemaError {
        let path = match (self.path.is_empty(), keyword.is_empty()) {
            (true, _) => keyword.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{keyword}", self.path),
        };
        SchemaError { path, message: message.into() }
    }

    fn is_root(&self) -> bool {
        self.depth == 0
    }
}

/// Parses the schema of a custom resource.
pub(crate) fn custom(schema: &Value) -> Result<Node, SchemaError> {
    let place = Place::root(Mode::Custom);
    let root = node(schema, &place)?;
    if root.kind != Type::Object {
        return Err(place.error("type", "Invalid value: must be object at the root"));
    }
    Ok(root)
}

/// Parses a published schema of a built-in kind.
pub(crate) fn builtin(schema: &Value) -> Result<Node, SchemaError> {
    node(schema, &Place::root(Mode::Builtin))
}

fn node(schema: &Value, place: &Place) -> Result<Node, SchemaError> {
    if place.depth > MAX_SCHEMA_DEPTH {
        return Err(place.error("", format!("Forbidden: schemas nest at most {MAX_SCHEMA_DEPTH} levels deep")));
    }
    let Some(map) = schema.as_object() else {
        return Err(place.error("", "Invalid value: a schema must be an object"));
    };
    if let Some(only) = single_all_of(map, place) {
        return node(&only, place);
    }
    keyword::refuse_unsupported(map, place)?;
    let mut node = Node {
        kind: kind(map, place)?,
        nullable: flag(map, "nullable", place)?,
        preserve: preserve(map, place)?,
        embedded: flag(map, "x-kubernetes-embedded-resource", place)? || place.is_root(),
        default: map.get("default").cloned(),
        checks: scalar::checks(map, place)?,
        strategy: strategy(map),
        ..Node::default()
    };
    children(map, &mut node, place)?;
    implicit::complete(map, &mut node, place)?;
    lists::kinds(map, &mut node, place)?;
    branch::junctors(map, &mut node, place)?;
    structural(map, &node, place)?;
    rules::compile(map, &mut node, place)?;
    check_default(&node, place)?;
    Ok(node)
}

/// Published schemas wrap a reference to add a default: `allOf` of one schema means that schema.
fn single_all_of(map: &Map<String, Value>, place: &Place) -> Option<Value> {
    if place.mode == Mode::Custom || map.contains_key("type") {
        return None;
    }
    let [only] = map.get("allOf")?.as_array()?.as_slice() else { return None };
    let mut merged = only.as_object()?.clone();
    for (name, value) in map {
        if name != "allOf" {
            merged.insert(name.clone(), value.clone());
        }
    }
    Some(Value::Object(merged))
}

fn kind(map: &Map<String, Value>, place: &Place) -> Result<Type, SchemaError> {
    let int_or_string = flag(map, "x-kubernetes-int-or-string", place)?;
    if int_or_string && map.contains_key("type") {
        return Err(place.error("type", "Forbidden: must be empty if x-kubernetes-int-or-string is true"));
    }
    if int_or_string || (place.mode == Mode::Builtin && text(map, "format") == Some("int-or-string")) {
        return Ok(Type::IntOrString);
    }
    match map.get("type") {
        None => Ok(Type::Any),
        Some(Value::String(word)) if !word.is_empty() => Type::parse(word).ok_or_else(|| {
            let known = r#""array", "boolean", "integer", "number", "object", "string""#;
            place.error("type", format!("Unsupported value: \"{word}\": supported values: {known}"))
        }),
        Some(_) => Err(place.error("type", "Invalid value: must be one type name")),
    }
}

fn preserve(map: &Map<String, Value>, place: &Place) -> Result<bool, SchemaError> {
    const KEYWORD: &str = "x-kubernetes-preserve-unknown-fields";
    match map.get(KEYWORD) {
        Some(Value::Bool(false)) => Err(place.error(KEYWORD, "Invalid value: false: must be true or undefined")),
        // Published schemas write a free-form object as an object without fields.
        None if place.mode == Mode::Builtin => {
            let fields = map.contains_key("properties") || map.contains_key("additionalProperties");
            Ok(text(map, "type") == Some("object") && !fields && !place.is_root())
        }
        _ => flag(map, KEYWORD, place),
    }
}

fn strategy(map: &Map<String, Value>) -> Strategy {
    let words = text(map, "x-kubernetes-patch-strategy").unwrap_or_default();
    Strategy {
        merge: words.split(',').any(|word| word.trim() == "merge"),
        merge_key: text(map, "x-kubernetes-patch-merge-key").map(str::to_owned),
    }
}

fn children(map: &Map<String, Value>, into: &mut Node, place: &Place) -> Result<(), SchemaError> {
    if let Some(properties) = object(map, "properties", place)? {
        for (name, schema) in properties {
            // The metadata of a resource is known; what a schema may add to it is taken over later.
            if into.embedded && name == "metadata" {
                continue;
            }
            let child = node(schema, &place.below(&format!("properties[{name}]")))?;
            into.properties.insert(name.clone(), child);
        }
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(true)) => into.additional = Some(Box::new(Node { preserve: true, ..Node::default() })),
        Some(Value::Bool(false)) if place.mode == Mode::Custom => {
            return Err(place.error("additionalProperties", "Forbidden: must not be false, unknown fields are dropped"));
        }
        None | Some(Value::Bool(false)) => {}
        Some(schema) => {
            into.additional = Some(Box::new(node(schema, &place.below("additionalProperties"))?));
        }
    }
    match map.get("items") {
        None => {}
        Some(Value::Array(_)) => {
            return Err(place.error("items", "Forbidden: items must be a schema object and not an array"));
        }
        Some(schema) => {
            let mut below = place.below("items");
            below.correlatable &= text(map, "x-kubernetes-list-type") == Some("map");
            into.items = Some(Box::new(node(schema, &below)?));
        }
    }
    Ok(())
}

fn structural(map: &Map<String, Value>, node: &Node, place: &Place) -> Result<(), SchemaError> {
    if place.mode == Mode::Builtin {
        return Ok(());
    }
    if node.kind == Type::Any && !node.preserve {
        return Err(place.error("type", required_type(place)));
    }
    if map.contains_key("properties") && node.additional.is_some() {
        let message = "Forbidden: additionalProperties and properties are mutual exclusive";
        return Err(place.error("additionalProperties", message));
    }
    if node.kind == Type::Array && node.items.is_none() {
        return Err(place.error("items", "Required value: must be specified"));
    }
    let fields = node.preserve || map.contains_key("properties") || node.additional.is_some();
    if !place.is_root() && node.embedded && !fields {
        let message = "Required value: must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
        return Err(place.error("properties", message));
    }
    if !place.is_root() && node.embedded && node.kind != Type::Object {
        return Err(place.error("type", "Invalid value: must be object if x-kubernetes-embedded-resource is true"));
    }
    Ok(())
}

fn required_type(place: &Place) -> &'static str {
    if place.is_root() {
        "Required value: must not be empty at the root"
    } else if place.path.ends_with("items") {
        "Required value: must not be empty for specified array items"
    } else {
        "Required value: must not be empty for specified object fields"
    }
}

/// A default must be an object that the schema itself would accept and keep whole.
fn check_default(node: &Node, place: &Place) -> Result<(), SchemaError> {
    let Some(default) = &node.default else { return Ok(()) };
    if place.mode == Mode::Builtin {
        return Ok(());
    }
    let mut kept = default.clone();
    if let Some(dropped) = crate::prune::prune(node, &mut kept).first() {
        return Err(place.error("default", format!("Invalid value: {default}: unknown field \"{dropped}\"")));
    }
    crate::default::fill(node, &mut kept);
    match crate::validate::values(node, &kept).into_iter().next() {
        Some(error) => Err(place.error("default", format!("Invalid value: {default}: {error}"))),
        None => Ok(()),
    }
}
