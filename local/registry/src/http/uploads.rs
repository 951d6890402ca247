//! Uploading blobs: in one request, as a stream, or in chunks.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::StreamExt;
use http::request::Parts;
use http::{HeaderName, StatusCode, header};

use super::{DOCKER_CONTENT_DIGEST, blocking, digest, empty, query};
use crate::digest::Digest;
use crate::error::ApiError;
use crate::name::RepositoryName;
use crate::range;
use crate::store::{Session, Store};

/// Bytes collected before they are hashed and written.
const WRITE: usize = 256 << 10;
const UPLOAD_ID: HeaderName = HeaderName::from_static("docker-upload-uuid");

pub(super) async fn start(
    store: Arc<Store>,
    name: RepositoryName,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    if let Some(mount) = query(parts, "mount").first() {
        let digest = digest(mount)?;
        if mounted(&store, &name, &digest, query(parts, "from").first()).await? {
            return Ok(created(&name, &digest));
        }
        return started(store, name).await;
    }
    let Some(text) = query(parts, "digest").into_iter().next() else { return started(store, name).await };
    let digest = digest(&text)?;
    let session = open(Arc::clone(&store), name.clone()).await?;
    if let Err(error) = receive(&store, &session, parts, body).await {
        // The client does not know the session: nobody would go on with it.
        let _ = blocking(move || store.cancel_upload(&session)).await;
        return Err(error);
    }
    finish(store, name, session, digest).await
}

async fn mounted(
    store: &Arc<Store>,
    name: &RepositoryName,
    digest: &Digest,
    from: Option<&String>,
) -> Result<bool, ApiError> {
    let from = match from {
        Some(text) => Some(RepositoryName::parse(text).ok_or_else(|| ApiError::NameInvalid(text.clone()))?),
        None => None,
    };
    let (store, name, digest) = (Arc::clone(store), name.clone(), digest.clone());
    blocking(move || store.mount_blob(&name, &digest, from.as_ref())).await
}

async fn open(store: Arc<Store>, name: RepositoryName) -> Result<Arc<Session>, ApiError> {
    blocking(move || store.start_upload(&name)).await
}

async fn started(store: Arc<Store>, name: RepositoryName) -> Result<Response, ApiError> {
    let session = open(store, name.clone()).await?;
    Ok(progress(StatusCode::ACCEPTED, &name, &session))
}

/// Where the upload stands.
fn progress(status: StatusCode, name: &RepositoryName, session: &Session) -> Response {
    let last = session.size().saturating_sub(1);
    let headers = [
        (header::LOCATION, format!("/v2/{}/blobs/uploads/{}", name.as_str(), session.id)),
        (header::RANGE, format!("0-{last}")),
        (UPLOAD_ID, session.id.clone()),
    ];
    empty(status, &headers)
}

fn created(name: &RepositoryName, digest: &Digest) -> Response {
    let headers = [
        (header::LOCATION, format!("/v2/{}/blobs/{digest}", name.as_str())),
        (DOCKER_CONTENT_DIGEST, digest.to_string()),
    ];
    empty(StatusCode::CREATED, &headers)
}

async fn find(store: &Arc<Store>, name: &RepositoryName, id: String) -> Result<Arc<Session>, ApiError> {
    let (store, name) = (Arc::clone(store), name.clone());
    blocking(move || store.upload(&name, &id)).await
}

pub(super) async fn status(store: Arc<Store>, name: RepositoryName, id: String) -> Result<Response, ApiError> {
    let session = find(&store, &name, id).await?;
    Ok(progress(StatusCode::NO_CONTENT, &name, &session))
}

pub(super) async fn cancel(store: Arc<Store>, name: RepositoryName, id: String) -> Result<Response, ApiError> {
    let session = find(&store, &name, id).await?;
    blocking(move || store.cancel_upload(&session)).await?;
    Ok(empty(StatusCode::NO_CONTENT, &[]))
}

pub(super) async fn patch(
    store: Arc<Store>,
    name: RepositoryName,
    id: String,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let session = find(&store, &name, id).await?;
    match receive(&store, &session, parts, body).await {
        Ok(()) => Ok(progress(StatusCode::ACCEPTED, &name, &session)),
        Err(ApiError::Range(_)) => Ok(progress(StatusCode::RANGE_NOT_SATISFIABLE, &name, &session)),
        Err(error) => Err(error),
    }
}

pub(super) async fn put(
    store: Arc<Store>,
    name: RepositoryName,
    id: String,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let text = query(parts, "digest").into_iter().next();
    let text = text.ok_or_else(|| ApiError::DigestInvalid("the parameter digest is missing".to_owned()))?;
    let digest = digest(&text)?;
    let session = find(&store, &name, id).await?;
    match receive(&store, &session, parts, body).await {
        Err(ApiError::Range(_)) => Ok(progress(StatusCode::RANGE_NOT_SATISFIABLE, &name, &session)),
        Err(error) => Err(error),
        Ok(()) => finish(store, name, session, digest).await,
    }
}

async fn finish(
    store: Arc<Store>,
    name: RepositoryName,
    session: Arc<Session>,
    digest: Digest,
) -> Result<Response, ApiError> {
    let answer = created(&name, &digest);
    blocking(move || store.finish_upload(&name, &session, &digest)).await?;
    Ok(answer)
}

/// Appends a body to the session. What arrived before a broken connection stays, so the client can go on from there.
async fn receive(store: &Arc<Store>, session: &Arc<Session>, parts: &Parts, body: Body) -> Result<(), ApiError> {
    let start = session.size();
    let announced = announced_length(parts, start)?;
    let mut offset = start;
    let mut pending: Vec<Bytes> = Vec::new();
    let mut pending_bytes = 0;
    let mut stream = body.into_data_stream();
    while let Some(part) = stream.next().await {
        let part = match part {
            Ok(part) => part,
            Err(error) => {
                append(store, session, offset, pending).await?;
                return Err(ApiError::BlobUploadInvalid(error.to_string()));
            }
        };
        pending_bytes += part.len();
        pending.push(part);
        if pending_bytes >= WRITE {
            offset = append(store, session, offset, std::mem::take(&mut pending)).await?;
            pending_bytes = 0;
        }
    }
    offset = append(store, session, offset, pending).await?;
    match announced {
        Some(length) if length != offset - start => {
            Err(ApiError::SizeInvalid(format!("Content-Range announced {length} bytes, {} came", offset - start)))
        }
        _ => Ok(()),
    }
}

/// The chunk's length by its `Content-Range`, which must start where the upload stands.
fn announced_length(parts: &Parts, size: u64) -> Result<Option<u64>, ApiError> {
    let Some(text) = super::header(parts, &header::CONTENT_RANGE) else { return Ok(None) };
    let bad = || ApiError::BlobUploadInvalid(format!("bad Content-Range {text}"));
    let (first, last) = range::chunk(text).ok_or_else(bad)?;
    if first != size {
        return Err(ApiError::Range(format!("the upload is at byte {size}, the chunk starts at {first}")));
    }
    let length = last - first + 1;
    let content_length = super::header(parts, &header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if content_length.is_some_and(|content| content != length) {
        return Err(ApiError::SizeInvalid(format!("Content-Range {text} and Content-Length differ")));
    }
    Ok(Some(length))
}

async fn append(store: &Arc<Store>, session: &Arc<Session>, offset: u64, pending: Vec<Bytes>) -> Result<u64, ApiError> {
    let (session, max) = (Arc::clone(session), store.options.max_blob_bytes);
    blocking(move || session.append(offset, &pending, max)).await
}
