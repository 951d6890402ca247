//! Writes: each reads the current object, decides the new one as a value, and stores it if nothing has changed since.

pub mod create;
pub mod delete;
pub mod evict;
pub mod internal;
pub mod patch;
mod prepare;
pub mod scale;
pub mod update;

use std::sync::Arc;

use modelway_schema::apply::{Manager, Operation};
use serde_json::Value;

use crate::Core;
use crate::kinds::ResourceKind;
use crate::query::WriteParameters;
use crate::status::ApiError;
use crate::store::{Key, Object, WriteError};
use crate::versions;

/// As in Kubernetes' store.
const OBJECT_LIMIT: usize = 1_536 * 1024;
/// Reads and writes of one unconditional request that met a concurrent write each time.
const ATTEMPTS: usize = 32;

/// Which part of the object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
}

/// One write request, resolved.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Arc<ResourceKind>,
    pub namespace: String,
    pub part: Part,
    pub parameters: WriteParameters,
    pub now: String,
    /// Fields that the body says twice.
    pub duplicates: Vec<String>,
}

/// What a write comes back with.
#[derive(Debug)]
pub struct Written {
    pub value: Value,
    pub created: bool,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
}

impl Request {
    pub fn key(&self, name: &str) -> Key {
        Key::new(&versions::stored_resource(&self.kind), &self.namespace, name)
    }

    fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: self.parameters.manager.clone(),
            operation,
            subresource: (self.part == Part::Status).then(|| "status".to_owned()),
            api_version: self.kind.api_version(),
        }
    }

    /// The namespace that must live for the object to be created.
    fn within(&self) -> Option<Key> {
        self.kind.namespaced.then(|| Key::namespace(&self.namespace))
    }

    /// A refused write in the words of the API.
    fn refused(&self, name: &str, error: &WriteError) -> ApiError {
        match error {
            WriteError::Exists => ApiError::already_exists(&self.kind, name),
            WriteError::Missing => ApiError::not_found(&self.kind, name),
            WriteError::Stale => ApiError::stale(&self.kind, name),
            WriteError::NamespaceMissing => ApiError::namespace_not_found(&self.namespace),
            WriteError::NamespaceTerminating => ApiError::namespace_terminating(&self.kind, name, &self.namespace),
            WriteError::Malformed(_) | WriteError::Disk(_) | WriteError::Timeout | WriteError::Closed => {
                ApiError::internal(error)
            }
        }
    }
}

fn live(core: &Core, request: &Request, name: &str) -> Result<Arc<Object>, ApiError> {
    core.store.get(&request.key(name)).ok_or_else(|| ApiError::not_found(&request.kind, name))
}

fn check_size(value: &Value) -> Result<(), ApiError> {
    let size = serde_json::to_vec(value).map_or(0, |bytes| bytes.len());
    if size > OBJECT_LIMIT {
        let message = format!("Request entity too large: the object has {size} bytes, the limit is {OBJECT_LIMIT}");
        return Err(ApiError::too_large(message));
    }
    Ok(())
}

/// Makes an object of the server's own storable.
pub fn prepare_own(request: &Request, value: &mut Value) -> Result<(), ApiError> {
    prepare::envelope(request, value)?;
    *value = create::complete(request, value.take())?;
    Ok(())
}
