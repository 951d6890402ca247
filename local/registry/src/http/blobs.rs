//! Downloading and deleting blobs.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode, header};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::{DOCKER_CONTENT_DIGEST, blocking, digest, empty, with_body};
use crate::error::ApiError;
use crate::name::RepositoryName;
use crate::range::{self, Wanted};
use crate::store::Store;

/// Bytes read from disk at a time.
const READ: usize = 256 << 10;

pub(super) async fn get(
    store: Arc<Store>,
    name: RepositoryName,
    text: &str,
    parts: &Parts,
) -> Result<Response, ApiError> {
    let digest = digest(text)?;
    let wanted_digest = digest.clone();
    let (mut file, size) = blocking(move || store.open_blob(&name, &wanted_digest)).await?;
    let mut headers: Vec<(HeaderName, String)> = vec![
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (DOCKER_CONTENT_DIGEST, digest.to_string()),
    ];
    let (status, first, length) = match range::wanted(super::header(parts, &header::RANGE), size) {
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part { first, last } => {
            headers.push((header::CONTENT_RANGE, format!("bytes {first}-{last}/{size}")));
            (StatusCode::PARTIAL_CONTENT, first, last - first + 1)
        }
        Wanted::Nothing => {
            headers.push((header::CONTENT_RANGE, format!("bytes */{size}")));
            return Ok(empty(StatusCode::RANGE_NOT_SATISFIABLE, &headers));
        }
    };
    headers.push((header::CONTENT_LENGTH, length.to_string()));
    if parts.method == Method::HEAD {
        return Ok(empty(status, &headers));
    }
    file.seek(SeekFrom::Start(first))?;
    let reader = tokio::fs::File::from_std(file).take(length);
    Ok(with_body(status, &headers, Body::from_stream(ReaderStream::with_capacity(reader, READ))))
}

pub(super) async fn delete(store: Arc<Store>, name: RepositoryName, text: &str) -> Result<Response, ApiError> {
    let digest = digest(text)?;
    blocking(move || store.delete_blob(&name, &digest)).await?;
    Ok(empty(StatusCode::ACCEPTED, &[]))
}
