//! What every new state of an object goes through: pruning, defaults, validation, generation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use modelway_schema::{FieldError, FieldErrorKind};
use serde_json::Value;

use super::{Part, Request};
use crate::builtin;
use crate::kinds::ResourceKind;
use crate::meta;
use crate::names::{self, NameRule};
use crate::query::FieldValidation;
use crate::status::{ApiError, Cause};
use crate::strategy;

/// Checks the envelope: a map of the right kind and version, with metadata of the right types.
pub fn envelope(request: &Request, value: &mut Value) -> Result<(), ApiError> {
    let kind = &request.kind;
    let (api_version, expected) = (value["apiVersion"].as_str().unwrap_or_default(), kind.api_version());
    let Some(map) = value.as_object() else {
        return Err(ApiError::bad_request(format!("the request body must be a {} object", kind.kind)));
    };
    if map.contains_key("apiVersion") && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if let Some(found) = map.get("kind")
        && *found != kind.kind.as_str()
    {
        return Err(ApiError::bad_request(format!(
            "the kind in the data ({}) does not match the expected kind ({})",
            found.as_str().unwrap_or_default(),
            kind.kind
        )));
    }
    value["apiVersion"] = expected.into();
    value["kind"] = kind.kind.as_str().into();
    let metadata = value.get("metadata").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    // `null` fields count as absent.
    serde_json::from_value::<ObjectMeta>(metadata)
        .map_err(|error| ApiError::bad_request(format!("{} cannot be read: metadata is wrong: {error}", kind.kind)))?;
    drop_null_metadata(value);
    if !strategy::is_custom(kind) {
        builtin::drop_nulls(value);
    }
    check_namespace(request, value)
}

fn drop_null_metadata(value: &mut Value) {
    if value["metadata"].is_null() {
        meta::set(value, "name", None);
    }
    if let Some(metadata) = meta::map(value) {
        metadata.retain(|_, field| !field.is_null());
    }
}

fn check_namespace(request: &Request, value: &mut Value) -> Result<(), ApiError> {
    if !request.kind.namespaced {
        meta::set(value, "namespace", None);
        return Ok(());
    }
    let found = meta::text(value, "namespace");
    if !found.is_empty() && found != request.namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request: \"{found}\" is not \"{}\"",
            request.namespace
        )));
    }
    meta::set(value, "namespace", Some(request.namespace.as_str().into()));
    Ok(())
}

/// Drops what the schema does not know; an error when the request is strict about it, else warnings.
pub fn prune(request: &Request, value: &mut Value) -> Result<Vec<String>, ApiError> {
    let unknown = request.kind.schema.prune(value);
    let twice = request.duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let texts = unknown.iter().map(|path| format!("unknown field \"{path}\"")).chain(twice);
    match request.parameters.field_validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts.collect()),
        FieldValidation::Strict if unknown.is_empty() && request.duplicates.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => {
            let texts: Vec<String> = texts.collect();
            let kind = &request.kind;
            Err(ApiError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.version,
                kind.kind,
                texts.join(", ")
            )))
        }
    }
}

/// Fills what the schema and the kind say about absent fields.
pub fn default(kind: &ResourceKind, value: &mut Value) {
    kind.schema.default(value);
    if !strategy::is_custom(kind) {
        builtin::default_object(&kind.group, &kind.kind, value);
    }
}

/// Everything wrong with a new state. On an update only the metadata that changed is judged.
pub fn validate(kind: &ResourceKind, value: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if old.is_none_or(|old| old["metadata"] != value["metadata"]) {
        causes.extend(names::check_metadata(&value["metadata"], NameRule::of(&kind.group, &kind.kind)));
    }
    let mut errors = kind.schema.validate(value, old);
    if !strategy::is_custom(kind) {
        if old.is_none() {
            check_types(kind, &errors)?;
        }
        check_quantities(kind, value)?;
        errors.iter_mut().for_each(name_by_key);
    }
    causes.extend(errors.into_iter().map(|error| Cause::new(error.kind.reason(), error.message, error.path)));
    // The kind's own rules rely on right types.
    if causes.is_empty() {
        causes.extend(strategy::validate(kind, value, old));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, meta::name(value), &causes)) }
}

/// A new object of a built-in kind with wrong types cannot even be read.
fn check_types(kind: &ResourceKind, errors: &[FieldError]) -> Result<(), ApiError> {
    let Some(error) = errors.iter().find(|error| error.kind == FieldErrorKind::TypeInvalid) else { return Ok(()) };
    let ResourceKind { kind, version, .. } = kind;
    Err(ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}")))
}

/// As in Kubernetes, where an object with a malformed quantity cannot be read.
fn check_quantities(kind: &ResourceKind, value: &Value) -> Result<(), ApiError> {
    if !builtin::has_malformed_quantity(value) {
        return Ok(());
    }
    let ResourceKind { kind, version, .. } = kind;
    Err(ApiError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )))
}

/// Duplicates in maps of built-in kinds are named by their key: `containers[1].name`.
fn name_by_key(error: &mut FieldError) {
    let keys = error.message.strip_prefix("Duplicate value: ").map(serde_json::from_str::<Value>);
    if let Some(Ok(Value::Object(keys))) = keys
        && let (1, Some((key, value))) = (keys.len(), keys.iter().next())
    {
        error.path = format!("{}.{key}", error.path);
        error.message = format!("Duplicate value: {value}");
    }
}

/// Keeps the generation, or raises it when the desired state changed.
pub fn set_generation(request: &Request, value: &mut Value, old: &Value) {
    if !strategy::has_generation(&request.kind) {
        return;
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
    let changed = request.part == Part::Main && desired(&request.kind, value) != desired(&request.kind, old);
    meta::set(value, "generation", Some((generation + i64::from(changed)).into()));
}

/// The part of an object whose change is a new generation.
fn desired(kind: &ResourceKind, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.retain(|field, _| match field.as_str() {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => !kind.status_subresource,
            _ => true,
        });
    }
    value
}
