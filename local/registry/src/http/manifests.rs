//! Pushing, reading and deleting manifests.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{DOCKER_CONTENT_DIGEST, blocking, empty, query, with_body};
use crate::digest::{Algorithm, Digest};
use crate::error::ApiError;
use crate::name::{RepositoryName, Tag};
use crate::store::{Manifest, Reference, Store};

const OCI_SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
const OCI_TAG: HeaderName = HeaderName::from_static("oci-tag");
/// Tags that one push may set.
const MAX_TAGS: usize = 64;

pub(super) async fn get(
    store: Arc<Store>,
    name: RepositoryName,
    text: &str,
    method: &Method,
) -> Result<Response, ApiError> {
    let reference = Reference::parse(text)?;
    let manifest = blocking(move || store.manifest(&name, &reference)).await?;
    let headers = [
        (header::CONTENT_TYPE, manifest.media_type),
        (header::CONTENT_LENGTH, manifest.bytes.len().to_string()),
        (DOCKER_CONTENT_DIGEST, manifest.digest.to_string()),
    ];
    if *method == Method::HEAD {
        return Ok(empty(StatusCode::OK, &headers));
    }
    Ok(with_body(StatusCode::OK, &headers, Body::from(manifest.bytes)))
}

pub(super) async fn put(
    store: Arc<Store>,
    name: RepositoryName,
    text: &str,
    parts: &Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let reference = Reference::parse(text)?;
    let media_type = super::header(parts, &header::CONTENT_TYPE).map(str::to_owned);
    let media_type = media_type.ok_or_else(|| ApiError::ManifestInvalid("no Content-Type".to_owned()))?;
    let bytes = read(body, store.options.max_manifest_bytes).await?;
    let (digest, tags) = identify(&reference, &query(parts, "tag"), &bytes)?;
    let manifest = Manifest { digest: digest.clone(), media_type, bytes };
    let (named, given) = (name.clone(), tags.clone());
    let stored = blocking(move || store.put_manifest(&named, &manifest, &given)).await?;
    let mut headers = vec![
        (header::LOCATION, format!("/v2/{}/manifests/{digest}", name.as_str())),
        (DOCKER_CONTENT_DIGEST, digest.to_string()),
    ];
    headers.extend(stored.subject.map(|subject| (OCI_SUBJECT, subject.to_string())));
    headers.extend(tags.iter().map(|tag| (OCI_TAG, tag.as_str().to_owned())));
    Ok(empty(StatusCode::CREATED, &headers))
}

/// The digest that the manifest gets and all tags that shall point to it.
fn identify(reference: &Reference, parameters: &[String], bytes: &[u8]) -> Result<(Digest, Vec<Tag>), ApiError> {
    if parameters.len() > MAX_TAGS {
        return Err(ApiError::TagInvalid(format!("list of more than {MAX_TAGS}")));
    }
    let parsed = parameters.iter().map(|text| Tag::parse(text).ok_or_else(|| ApiError::TagInvalid(text.clone())));
    let mut tags = parsed.collect::<Result<Vec<_>, _>>()?;
    let digest = match reference {
        Reference::Digest(digest) => digest.clone(),
        Reference::Tag(tag) => {
            tags.push(tag.clone());
            return Ok((Digest::of(Algorithm::Sha256, bytes), tags));
        }
    };
    let found = Digest::of(digest.algorithm(), bytes);
    if found != digest {
        return Err(ApiError::DigestInvalid(format!("content has {found}, not {digest}")));
    }
    Ok((digest, tags))
}

async fn read(body: Body, max: usize) -> Result<Vec<u8>, ApiError> {
    match Limited::new(body, max).collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(ApiError::TooLarge(format!("a manifest may have at most {max} bytes")))
        }
        Err(error) => Err(ApiError::ManifestInvalid(error.to_string())),
    }
}

pub(super) async fn delete(store: Arc<Store>, name: RepositoryName, text: &str) -> Result<Response, ApiError> {
    let reference = Reference::parse(text)?;
    blocking(move || store.delete_manifest(&name, &reference)).await?;
    Ok(empty(StatusCode::ACCEPTED, &[]))
}
