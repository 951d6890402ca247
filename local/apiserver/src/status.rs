//! Errors as Kubernetes says them: one `Status` object with a reason, a code and causes.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use crate::kinds::ResourceKind;

/// What a request is answered with when it fails. The text is the contract: clients and people read it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: StatusCode,
    /// `NotFound`, `Conflict`, ... as in Kubernetes' `StatusReason`.
    pub reason: &'static str,
    pub message: String,
    details: Option<Value>,
}

/// One reason within a failed request, bound to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub fn new(reason: &str, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), field: field.into() }
    }

    /// `FieldValueInvalid` with the value quoted, as Kubernetes prints it.
    pub fn invalid(field: &str, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", format!("Invalid value: {value}: {why}"), field)
    }

    pub fn required(field: &str, why: &str) -> Self {
        let tail = if why.is_empty() { String::new() } else { format!(": {why}") };
        Self::new("FieldValueRequired", format!("Required value{tail}"), field)
    }

    pub fn forbidden(field: &str, why: &str) -> Self {
        Self::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
    }

    fn json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn of(mut self, kind: &ResourceKind, name: &str) -> Self {
        self.details = Some(named(name, &kind.group, &kind.plural));
        self
    }

    #[must_use]
    pub fn with_causes(mut self, causes: &[Cause]) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        details["causes"] = causes.iter().map(Cause::json).collect();
        self
    }

    pub fn not_found(kind: &ResourceKind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).of(kind, name)
    }

    /// The object's namespace is missing.
    pub fn namespace_not_found(namespace: &str) -> Self {
        let message = format!("namespaces \"{namespace}\" not found");
        let mut error = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        error.details = Some(named(namespace, "", "namespaces"));
        error
    }

    /// The path names nothing that is served.
    pub fn path_not_found() -> Self {
        let mut error =
            Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource");
        error.details = Some(json!({}));
        error
    }

    pub fn already_exists(kind: &ResourceKind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.resource());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).of(kind, name)
    }

    pub fn conflict(kind: &ResourceKind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::new(StatusCode::CONFLICT, "Conflict", message).of(kind, name)
    }

    pub fn stale(kind: &ResourceKind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// Server-side apply met fields owned by others.
    pub fn apply_conflict(causes: &[Cause]) -> Self {
        let noun = if causes.len() == 1 { "conflict" } else { "conflicts" };
        let message = match causes {
            [one] => format!("Apply failed with 1 {noun}: {}: {}", one.message, one.field),
            many => {
                let lines: Vec<String> = many.iter().map(|cause| format!("- {}", cause.field)).collect();
                let who = many.first().map_or("", |cause| cause.message.as_str());
                format!("Apply failed with {} {noun}: {who}:\n{}", many.len(), lines.join("\n"))
            }
        };
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_causes(causes)
    }

    pub fn invalid(kind: &ResourceKind, name: &str, causes: &[Cause]) -> Self {
        let lines: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let text = if let [one] = lines.as_slice() { one.clone() } else { format!("[{}]", lines.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {text}", kind.qualified_kind());
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        error.details = Some(named(name, &kind.group, &kind.kind));
        error.with_causes(causes)
    }

    pub fn forbidden(kind: &ResourceKind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.resource());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).of(kind, name)
    }

    pub fn namespace_terminating(kind: &ResourceKind, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        );
        Self::forbidden(kind, name, &why).with_causes(&[cause])
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn unforced_patch() -> Self {
        let why = "may not be specified for non-apply patch";
        let message = format!("PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: {why}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_causes(&[Cause::forbidden("force", why)])
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub fn terminating_definition() -> Self {
        let message = "create not allowed while custom resource definition is terminating";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
    }

    /// A list or watch asked for a revision that is not there yet.
    pub fn future_revision(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let cause = Cause::new("ResourceVersionTooLarge", "Too large resource version", "");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        error.details = Some(json!({"retryAfterSeconds": 1}));
        error.with_causes(&[cause])
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// The `Status` object, as it goes over the wire and into `ERROR` watch events.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status["code"] = self.code.as_u16().into();
        status
    }
}

fn named(name: &str, group: &str, kind: &str) -> Value {
    let mut details = json!({"name": name});
    if !group.is_empty() {
        details["group"] = group.into();
    }
    details["kind"] = kind.into();
    details
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.code, [(header::CONTENT_TYPE, "application/json")], self.status().to_string()).into_response()
    }
}

/// `Status` of success, the answer to a finished delete.
pub fn success(kind: &ResourceKind, name: &str, uid: &str) -> Value {
    let mut details = named(name, &kind.group, &kind.plural);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_conflicts_name_manager_and_field() {
        let cause = Cause::new("FieldManagerConflict", "conflict with \"kubectl\" using v1", ".data.a");
        let error = ApiError::apply_conflict(&[cause]);
        assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"kubectl\" using v1: .data.a");
        assert_eq!(error.status()["details"]["causes"][0]["field"], ".data.a");
        assert_eq!(error.status()["code"], 409);
    }
}
