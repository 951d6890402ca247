//! Creating objects.

use modelway_schema::apply::{self, Operation};
use serde_json::Value;

use super::{Request, Written, check_size, prepare};
use crate::status::ApiError;
use crate::store::{Change, Write, WriteError};
use crate::{Core, crds, meta, names, strategy, versions};

/// Tries of a generated name that was taken.
const GENERATED_NAMES: usize = 8;

/// Creates what a POST carries.
pub async fn create(core: &Core, request: &Request, mut value: Value) -> Result<Written, ApiError> {
    prepare::envelope(request, &mut value)?;
    let prefix = meta::text(&value, "generateName").to_owned();
    let generated = meta::name(&value).is_empty() && !prefix.is_empty();
    let warnings = prepare::prune(request, &mut value)?;
    for attempt in 1..=GENERATED_NAMES {
        let mut candidate = value.clone();
        if generated {
            let name = names::generate(&prefix, &mut rand::rng());
            meta::set(&mut candidate, "name", Some(name.into()));
        }
        let candidate = complete(request, candidate)?;
        let candidate = tracked(request, candidate);
        match store(core, request, candidate).await {
            Err(error) if generated && error.reason == "AlreadyExists" && attempt < GENERATED_NAMES => {}
            Err(error) => return Err(error),
            Ok(value) => return Ok(Written { value, created: true, warnings }),
        }
    }
    Err(ApiError::internal("no free name was found"))
}

/// The creator owns what it sent and its defaults, but not a status that the server wrote.
fn tracked(request: &Request, mut value: Value) -> Value {
    let kept = drops_status(request).then(|| value.as_object_mut().and_then(|map| map.shift_remove("status")));
    let manager = request.manager(Operation::Update);
    let mut value = apply::track_update(&request.kind.schema, None, value, &manager, &request.now);
    if let Some(status) = kept.flatten() {
        value["status"] = status;
    }
    value
}

fn drops_status(request: &Request) -> bool {
    strategy::drops_status_on_create(&request.kind)
}

/// Fills what the server owns, defaults and validates; everything but the managed fields.
pub(super) fn complete(request: &Request, mut value: Value) -> Result<Value, ApiError> {
    if !meta::text(&value, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
        meta::set(&mut value, field, None);
    }
    meta::set(&mut value, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
    meta::set(&mut value, "creationTimestamp", Some(request.now.as_str().into()));
    if strategy::has_generation(&request.kind) {
        meta::set(&mut value, "generation", Some(1.into()));
    }
    if drops_status(request) {
        meta::copy(&mut value, &Value::Null, "status");
    }
    prepare::default(&request.kind, &mut value);
    strategy::prepare_create(&request.kind, &mut value);
    prepare::validate(&request.kind, &value, None)?;
    Ok(value)
}

/// Stores a completed object.
pub(super) async fn store(core: &Core, request: &Request, mut value: Value) -> Result<Value, ApiError> {
    check_size(&value)?;
    crds::check_create(core, &request.kind)?;
    crds::settle(core, &request.kind, &mut value);
    let name = meta::name(&value).to_owned();
    let key = request.key(&name);
    if request.parameters.dry_run {
        return dry_run(core, request, &name, value);
    }
    let value = versions::stored(value, &request.kind);
    let write = Write { key, expected: None, change: Change::Put(value), within: request.within() };
    let object = core.store.write(write).await.map_err(|error| request.refused(&name, &error))?;
    core.after_write(&object);
    Ok(versions::shown(&object, &request.kind))
}

fn dry_run(core: &Core, request: &Request, name: &str, value: Value) -> Result<Value, ApiError> {
    if core.store.get(&request.key(name)).is_some() {
        return Err(request.refused(name, &WriteError::Exists));
    }
    match request.within().map(|namespace| core.store.get(&namespace)) {
        Some(None) => Err(request.refused(name, &WriteError::NamespaceMissing)),
        Some(Some(namespace)) if namespace.terminating => Err(request.refused(name, &WriteError::NamespaceTerminating)),
        Some(Some(_)) | None => Ok(value),
    }
}
