//! Errors as the distribution API spells them: a status, a code, a message.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

/// What a request is refused with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("blob {0} is not in this repository")]
    BlobUnknown(String),
    #[error("upload failed: {0}")]
    BlobUploadInvalid(String),
    #[error("upload session {0} is not known; start again with POST")]
    BlobUploadUnknown(String),
    #[error("digest mismatch or bad digest: {0}")]
    DigestInvalid(String),
    #[error("manifest names {0}, which is not in this repository; push it first")]
    ManifestBlobUnknown(String),
    #[error("bad manifest: {0}")]
    ManifestInvalid(String),
    #[error("manifest {0} is not in this repository")]
    ManifestUnknown(String),
    #[error("bad repository name {0}")]
    NameInvalid(String),
    #[error("repository {0} is not known")]
    NameUnknown(String),
    #[error("bad tag {0}")]
    TagInvalid(String),
    #[error("{0}")]
    SizeInvalid(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("range cannot be satisfied: {0}")]
    Range(String),
    #[error("too many uploads at a time; try again later")]
    TooManyRequests,
    #[error("no such operation: {0}")]
    Unsupported(String),
    #[error("{0} is not part of the distribution API")]
    NotFound(String),
    #[error("storage failed: {0}")]
    Storage(#[from] std::io::Error),
}

impl ApiError {
    const fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::BlobUnknown(_) => (StatusCode::NOT_FOUND, "BLOB_UNKNOWN"),
            Self::BlobUploadInvalid(_) => (StatusCode::BAD_REQUEST, "BLOB_UPLOAD_INVALID"),
            Self::BlobUploadUnknown(_) => (StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN"),
            Self::DigestInvalid(_) => (StatusCode::BAD_REQUEST, "DIGEST_INVALID"),
            Self::ManifestBlobUnknown(_) => (StatusCode::NOT_FOUND, "MANIFEST_BLOB_UNKNOWN"),
            Self::ManifestInvalid(_) => (StatusCode::BAD_REQUEST, "MANIFEST_INVALID"),
            Self::ManifestUnknown(_) => (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN"),
            Self::NameInvalid(_) => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
            Self::NameUnknown(_) => (StatusCode::NOT_FOUND, "NAME_UNKNOWN"),
            Self::TagInvalid(_) => (StatusCode::BAD_REQUEST, "TAG_INVALID"),
            Self::SizeInvalid(_) => (StatusCode::BAD_REQUEST, "SIZE_INVALID"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID"),
            Self::Range(_) => (StatusCode::RANGE_NOT_SATISFIABLE, "BLOB_UPLOAD_INVALID"),
            Self::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS"),
            Self::Unsupported(_) => (StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "UNSUPPORTED"),
            Self::Storage(_) => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        if let Self::Storage(source) = &self {
            tracing::error!(error = %source, "registry storage failed");
        }
        (status, Json(json!({"errors": [{"code": code, "message": self.to_string()}]}))).into_response()
    }
}
