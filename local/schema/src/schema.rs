//! A parsed structural schema.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::node::Node;
use crate::{FieldError, SchemaError, default, parse, prune, validate};

/// A structural schema, parsed once; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Arc<Node>,
}

static PERMISSIVE: LazyLock<Schema> = LazyLock::new(|| Schema { root: Arc::new(parse::permissive()) });

impl Schema {
    /// Parses the schema of a custom resource and checks the structural rules as Kubernetes does.
    ///
    /// `apiVersion`, `kind` and `metadata` are known without being named.
    pub fn parse(schema: &Value) -> Result<Self, SchemaError> {
        parse::custom(schema).map(|root| Self { root: Arc::new(root) })
    }

    /// Parses a published `OpenAPI` schema of a built-in kind: `$ref`s resolved, structural rules not demanded.
    pub fn parse_builtin(schema: &Value) -> Result<Self, SchemaError> {
        parse::builtin(schema).map(|root| Self { root: Arc::new(root) })
    }

    /// The schema that allows and keeps everything.
    pub fn permissive() -> Self {
        PERMISSIVE.clone()
    }

    /// Fills absent fields that have a default; nulls where null is not allowed count as absent.
    pub fn default(&self, object: &mut Value) {
        default::fill(&self.root, object);
    }

    /// Drops fields the schema does not know; returns their paths, such as `spec.foo`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Everything that is wrong with the object; `old` is the stored object on an update.
    ///
    /// On an update a rule broken by a value that did not change is not reported.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(&self.root, object, old)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}
