//! The four patch languages over one read-decide-write loop.

use modelway_schema::apply::{self, ApplyError, Operation};
use modelway_schema::patch::{self, PatchError};
use serde_json::Value;

use super::update::{Wanted, check_name, mutate};
use super::{ATTEMPTS, Part, Request, Written, create, prepare};
use crate::Core;
use crate::body;
use crate::meta;
use crate::status::{ApiError, Cause};

/// A patch document with its language.
#[derive(Clone, Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

const ACCEPTED: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl Patch {
    pub fn decode(content_type: &str, bytes: &[u8]) -> Result<Self, ApiError> {
        match content_type {
            "application/json-patch+json" => body::json(bytes).map(Self::Json),
            "application/merge-patch+json" => body::json(bytes).map(Self::Merge),
            "application/strategic-merge-patch+json" => body::json(bytes).map(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => body::yaml(bytes).map(Self::Apply),
            other => Err(body::unsupported(other, &ACCEPTED)),
        }
    }
}

/// Patches an object; a server-side apply also creates it.
pub async fn patch(core: &Core, request: &Request, name: &str, patch: Patch) -> Result<Written, ApiError> {
    if let Patch::Apply(applied) = patch {
        return apply(core, request, name, applied).await;
    }
    if request.parameters.force {
        return Err(ApiError::unforced_patch());
    }
    if matches!(patch, Patch::Strategic(_)) && crate::strategy::is_custom(&request.kind) {
        return Err(body::unsupported(ACCEPTED[2], &[ACCEPTED[0], ACCEPTED[1], ACCEPTED[3]]));
    }
    mutate(core, request, name, |old| wanted(request, name, &patch, old)).await
}

fn wanted(request: &Request, name: &str, patch: &Patch, old: &Value) -> Result<Wanted, ApiError> {
    let mut value = old.clone();
    let patched = match patch {
        Patch::Json(patch) => patch::json(&mut value, patch),
        Patch::Merge(patch) | Patch::Apply(patch) => {
            if !patch.is_object() {
                return Err(ApiError::bad_request("the patch must be a JSON object"));
            }
            patch::merge(&mut value, patch);
            Ok(())
        }
        Patch::Strategic(patch) => patch::strategic(&request.kind.schema, &mut value, patch),
    };
    patched.map_err(|error| refused(request, name, &error))?;
    // The current revision binds nothing; another one that the patch names is refused, now or on the next try.
    if meta::text(&value, "resourceVersion") == meta::text(old, "resourceVersion") {
        meta::set(&mut value, "resourceVersion", None);
    }
    prepare::envelope(request, &mut value)?;
    check_name(name, &value)?;
    let warnings = prepare::prune(request, &mut value).map_err(|error| strict(request, name, error))?;
    Ok(Wanted { value, warnings, tracked: false, patched: true })
}

/// What a strict patch leads to that nobody knows, told as a fault of the patch.
fn strict(request: &Request, name: &str, error: ApiError) -> ApiError {
    let Some((_, why)) = error.message.split_once("strict decoding error: ") else { return error };
    let why = format!("Invalid value: strict decoding error: {why}");
    ApiError::invalid(&request.kind, name, &[Cause::new("FieldValueInvalid", why, "patch")])
}

fn refused(request: &Request, name: &str, error: &PatchError) -> ApiError {
    match error {
        PatchError::Malformed(why) => ApiError::bad_request(why.clone()),
        PatchError::Unprocessable(why) => {
            ApiError::invalid(&request.kind, name, &[Cause::new("FieldValueInvalid", why.clone(), "patch")])
        }
    }
}

async fn apply(core: &Core, request: &Request, name: &str, mut applied: Value) -> Result<Written, ApiError> {
    if !request.parameters.manager_given {
        return Err(ApiError::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ));
    }
    check_applied(request, name, &mut applied)?;
    if let Some(unknown) = request.kind.schema.prune(&mut applied).first() {
        let why = apply::untyped(&applied, &format!(".{unknown}: field not declared in schema"));
        return Err(ApiError::bad_request(why));
    }
    keep_part(request, &mut applied);
    for _ in 0..ATTEMPTS {
        if core.store.get(&request.key(name)).is_some() {
            let result = mutate(core, request, name, |old| merged(request, &applied, old)).await;
            match result {
                // Removed in between: created below, or found again.
                Err(error) if error.reason == "NotFound" => {}
                other => return other,
            }
        }
        match created(core, request, &applied).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
            Ok(value) => return Ok(Written { value, created: true, warnings: Vec::new() }),
        }
    }
    Err(ApiError::stale(&request.kind, name))
}

fn check_applied(request: &Request, name: &str, applied: &mut Value) -> Result<(), ApiError> {
    for field in ["apiVersion", "kind"] {
        if applied[field].as_str().unwrap_or_default().is_empty() {
            return Err(ApiError::bad_request(format!("the applied object must name its {field}")));
        }
    }
    prepare::envelope(request, applied)?;
    if applied["metadata"].get("managedFields").is_some() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if meta::name(applied).is_empty() {
        meta::set(applied, "name", Some(name.into()));
    }
    check_name(name, applied)
}

/// Through one part of an object nothing of the other is applied, so that nothing of it is owned.
fn keep_part(request: &Request, applied: &mut Value) {
    if !request.kind.status_subresource {
        return;
    }
    let Some(fields) = applied.as_object_mut() else { return };
    match request.part {
        Part::Main => drop(fields.shift_remove("status")),
        Part::Status => {
            fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        }
    }
}

fn merged(request: &Request, applied: &Value, old: &Value) -> Result<Wanted, ApiError> {
    let bound = applied["metadata"].get("resourceVersion").cloned();
    let uid = applied["metadata"].get("uid").cloned();
    let mut value = applied_over(request, Some(old), applied)?;
    meta::set(&mut value, "resourceVersion", bound);
    if uid.is_some() {
        meta::set(&mut value, "uid", uid);
    }
    Ok(Wanted { value, warnings: Vec::new(), tracked: true, patched: true })
}

async fn created(core: &Core, request: &Request, applied: &Value) -> Result<Value, ApiError> {
    if request.part != Part::Main {
        return Err(ApiError::not_found(&request.kind, meta::name(applied)));
    }
    if !meta::text(applied, "uid").is_empty() {
        let why = "uid mismatch: the provided object specified uid, and no existing object was found";
        return Err(ApiError::conflict(&request.kind, meta::name(applied), why));
    }
    let mut value = applied_over(request, None, applied)?;
    meta::set(&mut value, "resourceVersion", None);
    let value = create::complete(request, value)?;
    create::store(core, request, value).await
}

fn applied_over(request: &Request, old: Option<&Value>, applied: &Value) -> Result<Value, ApiError> {
    let manager = request.manager(Operation::Apply);
    let force = request.parameters.force;
    apply::apply(&request.kind.schema, old, applied, &manager, force, &request.now).map_err(|error| match error {
        ApplyError::Conflicts(conflicts) => {
            let causes: Vec<Cause> = conflicts
                .into_iter()
                .map(|one| Cause::new("FieldManagerConflict", format!("conflict with {}", one.manager), one.field))
                .collect();
            ApiError::apply_conflict(&causes)
        }
        ApplyError::Invalid(why) => ApiError::bad_request(why),
    })
}
