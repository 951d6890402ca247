//! One place of a parsed schema: what may stand there and how it merges.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::cel::Rule;
use crate::checks::Checks;

/// The JSON type a node asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The word in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    pub(crate) fn is_scalar(self) -> bool {
        matches!(self, Self::String | Self::Integer | Self::Number | Self::Boolean | Self::IntOrString)
    }
}

/// How the elements of a list relate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How a strategic merge patch treats this place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strategy {
    pub merge: bool,
    pub merge_key: Option<String>,
}

/// One place of a schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
pub(crate) struct Node {
    pub kind: Type,
    pub nullable: bool,
    /// Unknown fields stay.
    pub preserve: bool,
    /// Holds a whole resource with apiVersion, kind and metadata.
    pub embedded: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Box<Node>>,
    pub items: Option<Box<Node>>,
    pub list: ListKind,
    pub atomic_map: bool,
    pub strategy: Strategy,
    pub checks: Checks,
    pub rules: Vec<Rule>,
    /// Whether this node or one below it has rules.
    pub has_rules: bool,
}

static ANYTHING: LazyLock<Node> = LazyLock::new(|| Node { preserve: true, ..Node::default() });

impl Node {
    /// The node of places no schema speaks about: everything is kept, maps are granular, lists atomic.
    pub(crate) fn anything<'a>() -> &'a Node {
        &ANYTHING
    }

    /// The node of a map's value or an object's field; none when the field is unknown.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(self.additional.as_deref()).or_else(|| self.keeps_unknown().then(Node::anything))
    }

    /// As [`Node::field`], with unknown fields treated as anything.
    pub(crate) fn field_or_anything(&self, name: &str) -> &Node {
        self.field(name).unwrap_or_else(Node::anything)
    }

    /// The node of a list's elements.
    pub(crate) fn element(&self) -> &Node {
        self.items.as_deref().unwrap_or_else(Node::anything)
    }

    /// Whether unknown fields stay.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.preserve || self.kind == Type::Any
    }

    /// Whether `name` is a declared field rather than a map's key.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }
}
