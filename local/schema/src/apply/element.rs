//! One step of a field's path, as `FieldsV1` writes it.

use std::fmt;

use serde_json::{Map, Value};

/// A step into a map or a list. Keys and values are kept as canonical JSON, so that equal steps are equal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field of an object or a key of a map (`f:`).
    Field(String),
    /// The element of a list map with these keys (`k:`).
    Key(String),
    /// The element of a set with this value (`v:`).
    Value(String),
    /// The element of a list at this place (`i:`).
    Index(usize),
}

impl Element {
    pub(super) fn key(keys: Map<String, Value>) -> Self {
        Self::Key(canonical(&Value::Object(keys)))
    }

    pub(super) fn value(value: &Value) -> Self {
        Self::Value(canonical(value))
    }

    /// Reads the text of `FieldsV1`; none when it is malformed.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let (sort, rest) = text.split_once(':')?;
        match sort {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => match serde_json::from_str(rest).ok()? {
                keys @ Value::Object(_) => Some(Self::Key(canonical(&keys))),
                _ => None,
            },
            "v" => Some(Self::value(&serde_json::from_str(rest).ok()?)),
            "i" => Some(Self::Index(rest.parse().ok()?)),
            _ => None,
        }
    }

    /// The text in `FieldsV1`.
    pub(super) fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// The step as conflicts show it, such as `.image` or `[name="web"]`.
impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(formatter, "[{}]", keys.join(","))
            }
        }
    }
}

/// The value as JSON text with sorted keys, so that equal values have equal texts.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => sorted(value).to_string(),
        scalar => scalar.to_string(),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            Value::Object(entries.into_iter().map(|(name, item)| (name.clone(), sorted(item))).collect())
        }
        scalar => scalar.clone(),
    }
}
