//! New states of objects that exist: the common end of replace, patch, apply and scale.

use std::sync::Arc;

use modelway_schema::apply::{self, Operation};
use serde_json::Value;

use super::{ATTEMPTS, Part, Request, Written, check_size, live, prepare};
use crate::kinds::ResourceKind;
use crate::status::{ApiError, Cause};
use crate::store::{Change, Object, Write, WriteError};
use crate::{Core, crds, meta, strategy, versions};

/// A new state as the request wants it.
pub(super) struct Wanted {
    pub value: Value,
    pub warnings: Vec<String>,
    /// Managed fields are already those of the new state.
    pub tracked: bool,
    /// Made of the old state: its uid is no precondition but a field that cannot be changed.
    pub patched: bool,
}

impl From<Value> for Wanted {
    fn from(value: Value) -> Self {
        Self { value, warnings: Vec::new(), tracked: false, patched: false }
    }
}

/// Replaces an object by what a PUT carries.
pub async fn replace(core: &Core, request: &Request, name: &str, mut value: Value) -> Result<Written, ApiError> {
    prepare::envelope(request, &mut value)?;
    check_name(name, &value)?;
    let warnings = prepare::prune(request, &mut value)?;
    mutate(core, request, name, |_| {
        Ok(Wanted { value: value.clone(), warnings: warnings.clone(), tracked: false, patched: false })
    })
    .await
}

pub(super) fn check_name(name: &str, value: &Value) -> Result<(), ApiError> {
    let found = meta::name(value);
    if found == name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("the name of the object ({found}) does not match the name on the URL ({name})")))
}

/// Reads, decides and writes until no other write came between, or the request was bound to a revision.
pub(super) async fn mutate(
    core: &Core,
    request: &Request,
    name: &str,
    mut change: impl FnMut(&Value) -> Result<Wanted, ApiError>,
) -> Result<Written, ApiError> {
    for _ in 0..ATTEMPTS {
        let current = live(core, request, name)?;
        let old = versions::shown(&current, &request.kind);
        let wanted = change(&old)?;
        let bound = check_preconditions(request, name, &wanted, &old)?;
        let warnings = wanted.warnings.clone();
        let new = complete(request, wanted, &old)?;
        match store(core, request, &current, new, &old).await {
            Err(WriteError::Stale) if !bound => {}
            Err(error) => return Err(request.refused(name, &error)),
            Ok(value) => return Ok(Written { value, created: false, warnings }),
        }
    }
    Err(ApiError::stale(&request.kind, name))
}

/// Whether the request is bound to a revision; an error when it, or the uid, is another one.
fn check_preconditions(request: &Request, name: &str, wanted: &Wanted, old: &Value) -> Result<bool, ApiError> {
    let new = &wanted.value;
    let (uid, live_uid) = (meta::text(new, "uid"), meta::text(old, "uid"));
    if !wanted.patched && !uid.is_empty() && uid != live_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}");
        return Err(ApiError::conflict(&request.kind, name, &why));
    }
    let revision = meta::text(new, "resourceVersion");
    if revision.is_empty() || revision == "0" {
        return Ok(false);
    }
    if revision != meta::text(old, "resourceVersion") {
        return Err(ApiError::stale(&request.kind, name));
    }
    Ok(true)
}

/// Makes the wanted state a storable one.
fn complete(request: &Request, wanted: Wanted, old: &Value) -> Result<Value, ApiError> {
    let kind = &request.kind;
    let mut value = wanted.value;
    if request.part == Part::Status {
        let mut base = old.clone();
        meta::copy(&mut base, &value, "status");
        if wanted.tracked {
            meta::copy_metadata(&mut base, &value, "managedFields");
        }
        value = base;
    } else if kind.status_subresource {
        meta::copy(&mut value, old, "status");
    }
    check_metadata(kind, &value, old)?;
    restore_metadata(&mut value, old);
    prepare::default(kind, &mut value);
    strategy::prepare_update(kind, &mut value, old, request.part);
    prepare::set_generation(request, &mut value, old);
    prepare::validate(kind, &value, Some(old))?;
    check_finalizers(kind, &value, old)?;
    if !wanted.tracked {
        value = apply::track_update(&kind.schema, Some(old), value, &request.manager(Operation::Update), &request.now);
    }
    check_size(&value)?;
    Ok(value)
}

/// Refuses what Kubernetes refuses to change; the rest is restored in silence.
fn check_metadata(kind: &ResourceKind, value: &Value, old: &Value) -> Result<(), ApiError> {
    let terminating = meta::is_terminating(old);
    let changed = |field: &&str| {
        let new = &value["metadata"][*field];
        !new.is_null() && *new != old["metadata"][*field] && !(terminating && *field == "deletionTimestamp")
    };
    let fields = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(changed);
    let cause = |field| Cause::invalid(&format!("metadata.{field}"), &value["metadata"][field], "field is immutable");
    let causes: Vec<Cause> = fields.map(cause).collect();
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, meta::name(value), &causes)) }
}

/// Metadata that no client can change.
fn restore_metadata(value: &mut Value, old: &Value) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        meta::copy_metadata(value, old, field);
    }
    meta::set(value, "selfLink", None);
    if value["metadata"].get("managedFields").is_none() {
        meta::copy_metadata(value, old, "managedFields");
    }
}

fn check_finalizers(kind: &ResourceKind, value: &Value, old: &Value) -> Result<(), ApiError> {
    if !meta::is_terminating(old) {
        return Ok(());
    }
    let known = meta::finalizers(old);
    let new: Vec<String> = meta::finalizers(value).into_iter().filter(|one| !known.contains(one)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let quoted: Vec<String> = new.iter().map(|one| format!("\"{one}\"")).collect();
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Err(ApiError::invalid(kind, meta::name(value), &[Cause::forbidden("metadata.finalizers", &why)]))
}

/// Stores the new state; nothing when nothing changed; a removal when this was the last thing a deletion waited for.
async fn store(
    core: &Core,
    request: &Request,
    current: &Arc<Object>,
    mut new: Value,
    old: &Value,
) -> Result<Value, WriteError> {
    crds::settle(core, &request.kind, &mut new);
    if meta::same(&new, old) {
        return Ok(old.clone());
    }
    if request.parameters.dry_run {
        return Ok(new);
    }
    let new = versions::stored(new, &request.kind);
    let change = if meta::is_released(&new) { Change::Delete(new) } else { Change::Put(new) };
    let write = Write { key: current.key.clone(), expected: Some(current.revision), change, within: None };
    let object = core.store.write(write).await?;
    core.after_write(&object);
    Ok(versions::shown(&object, &request.kind))
}
