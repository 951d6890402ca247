//! How objects are shown: whole, their metadata alone, or as a table.

use std::time::SystemTime;

use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::kinds::ResourceKind;
use crate::query::Parameters;
use crate::status::ApiError;
use crate::store::Object;
use crate::table::{self, IncludeObject};
use crate::versions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Whole,
    Metadata,
    Table(IncludeObject),
}

impl View {
    /// What the client asks for with its `Accept` header.
    pub fn of(headers: &HeaderMap, parameters: &Parameters) -> Result<Self, ApiError> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if table::wanted(accept) {
            let word = parameters.text("includeObject");
            let include = IncludeObject::parse(word).ok_or_else(|| {
                ApiError::bad_request("includeObject: supported values: \"Metadata\", \"None\", \"Object\"")
            })?;
            return Ok(Self::Table(include));
        }
        let first = accept.split(',').find(|media| media.trim_start().starts_with("application/json"));
        Ok(if first.is_some_and(|media| media.contains("as=PartialObjectMetadata")) {
            Self::Metadata
        } else {
            Self::Whole
        })
    }

    /// One object.
    pub fn one(self, kind: &ResourceKind, value: Value) -> Value {
        match self {
            Self::Whole => value,
            Self::Metadata => table::partial(&value),
            Self::Table(include) => {
                let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                table::table(kind, &metadata, &[value], include, SystemTime::now())
            }
        }
    }

    /// A list, as JSON text.
    pub fn list(self, kind: &ResourceKind, metadata: &Value, objects: &[std::sync::Arc<Object>]) -> Vec<u8> {
        match self {
            Self::Whole => whole_list(kind, metadata, objects),
            Self::Metadata => {
                let items: Vec<Value> =
                    objects.iter().map(|object| table::partial(&versions::shown(object, kind))).collect();
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items,
                });
                list.to_string().into_bytes()
            }
            Self::Table(include) => {
                let items: Vec<Value> = objects.iter().map(|object| versions::shown(object, kind)).collect();
                table::table(kind, metadata, &items, include, SystemTime::now()).to_string().into_bytes()
            }
        }
    }
}

/// Objects are copied as they are stored, without being parsed.
fn whole_list(kind: &ResourceKind, metadata: &Value, objects: &[std::sync::Arc<Object>]) -> Vec<u8> {
    let api_version = kind.api_version();
    let size = objects.iter().map(|object| object.body.len() + 1).sum::<usize>() + 256;
    let mut text = Vec::with_capacity(size);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind
    );
    text.extend_from_slice(head.as_bytes());
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        if object.api_version == api_version {
            text.extend_from_slice(&object.body);
        } else {
            text.extend_from_slice(versions::shown(object, kind).to_string().as_bytes());
        }
    }
    text.extend_from_slice(b"]}");
    text
}
