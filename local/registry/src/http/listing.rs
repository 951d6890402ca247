//! Lists: repositories, tags, referrers.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, header};
use serde_json::{Value, json};

use super::{blocking, digest, query};
use crate::error::ApiError;
use crate::name::RepositoryName;
use crate::store::Store;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");

/// Entries of a page when the client does not say.
const PAGE: usize = 1000;

pub(super) fn base() -> Response {
    Json(json!({})).into_response()
}

pub(super) async fn catalog(store: Arc<Store>, parts: &Parts) -> Result<Response, ApiError> {
    let names = blocking(move || store.repositories()).await?;
    let page = page(names.iter().map(|name| name.as_str().to_owned()).collect(), parts)?;
    Ok(linked(json!({"repositories": page.entries}), &page, "/v2/_catalog"))
}

pub(super) async fn tags(store: Arc<Store>, name: RepositoryName, parts: &Parts) -> Result<Response, ApiError> {
    let named = name.clone();
    let tags = blocking(move || {
        if !store.has_repository(&named) {
            return Err(ApiError::NameUnknown(named.as_str().to_owned()));
        }
        store.tags(&named).map_err(ApiError::from)
    })
    .await?;
    let page = page(tags, parts)?;
    let path = format!("/v2/{}/tags/list", name.as_str());
    Ok(linked(json!({"name": name.as_str(), "tags": page.entries}), &page, &path))
}

pub(super) async fn referrers(
    store: Arc<Store>,
    name: RepositoryName,
    text: &str,
    parts: &Parts,
) -> Result<Response, ApiError> {
    let subject = digest(text)?;
    let mut descriptors = blocking(move || store.referrers(&name, &subject)).await?;
    let wanted = query(parts, "artifactType");
    if !wanted.is_empty() {
        descriptors.retain(|one| {
            one.get("artifactType").and_then(Value::as_str).is_some_and(|kind| wanted.iter().any(|text| text == kind))
        });
    }
    let body = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors});
    let mut response = Json(body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(INDEX));
    if !wanted.is_empty() {
        response.headers_mut().insert(FILTERS_APPLIED, HeaderValue::from_static("artifactType"));
    }
    Ok(response)
}

/// Part of a sorted list.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    entries: Vec<String>,
    size: usize,
    more: bool,
}

fn page(names: Vec<String>, parts: &Parts) -> Result<Page, ApiError> {
    let size = match query(parts, "n").first() {
        Some(text) => text.parse().map_err(|_| ApiError::SizeInvalid(format!("n={text} is not a count")))?,
        None => PAGE,
    };
    Ok(cut(names, query(parts, "last").first(), size))
}

fn cut(names: Vec<String>, last: Option<&String>, size: usize) -> Page {
    let mut entries: Vec<String> =
        names.into_iter().filter(|name| last.is_none_or(|last| name.as_str() > last.as_str())).collect();
    let more = size > 0 && entries.len() > size;
    entries.truncate(size);
    Page { entries, size, more }
}

fn linked(body: Value, page: &Page, path: &str) -> Response {
    let mut response = Json(body).into_response();
    if let (true, Some(last)) = (page.more, page.entries.last()) {
        // Names and tags need no escaping in a query.
        let link = format!("<{path}?n={}&last={last}>; rel=\"next\"", page.size);
        if let Ok(value) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(header::LINK, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let names = || ["a", "b", "c"].map(str::to_owned).to_vec();
        let first = cut(names(), None, 2);
        assert_eq!((first.entries, first.more), (vec!["a".to_owned(), "b".to_owned()], true));
        let second = cut(names(), Some(&"b".to_owned()), 2);
        assert_eq!((second.entries, second.more), (vec!["c".to_owned()], false));
        assert_eq!(cut(names(), None, 0), Page { entries: vec![], size: 0, more: false });
    }
}
