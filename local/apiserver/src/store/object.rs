//! One stored object: its JSON as it is served, and the few facts that selectors, watches and collection ask for.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// Names an object for ever: `deployments.apps`, its namespace (empty for cluster scope) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub resource: Arc<str>,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The object of a namespace itself.
    pub fn namespace(name: &str) -> Self {
        Self::new("namespaces", "", name)
    }
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub block_owner_deletion: bool,
}

/// One revision of an object. Cheap to share; the JSON is parsed only by those who need it.
#[derive(Clone, Debug)]
pub struct Object {
    pub key: Key,
    pub revision: u64,
    pub body: Bytes,
    pub api_version: String,
    pub uid: String,
    pub labels: Vec<(String, String)>,
    pub owners: Vec<Owner>,
    pub finalizers: Vec<String>,
    /// Has a `deletionTimestamp`.
    pub terminating: bool,
}

/// The part of an object that the index keeps parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    metadata: HeadMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl Object {
    /// Reads the head of a stored body.
    pub fn from_body(key: Key, revision: u64, body: Bytes) -> Result<Self, serde_json::Error> {
        let head: Head = serde_json::from_slice(&body)?;
        let metadata = head.metadata;
        Ok(Self {
            key,
            revision,
            body,
            api_version: head.api_version,
            uid: metadata.uid,
            labels: metadata.labels.unwrap_or_default().into_iter().collect(),
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
        })
    }

    /// Writes the revision into the value and keeps its JSON.
    pub fn from_value(key: Key, revision: u64, value: &mut Value) -> Result<Self, serde_json::Error> {
        value["metadata"]["resourceVersion"] = revision.to_string().into();
        let body = serde_json::to_vec(value)?;
        Self::from_body(key, revision, body.into())
    }

    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the store keeps only what serde_json wrote")
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|known| known == name)
    }
}
