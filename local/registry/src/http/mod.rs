//! The distribution API over HTTP.

mod blobs;
mod listing;
mod manifests;
mod uploads;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::digest::Digest;
use crate::error::ApiError;
use crate::route::{Route, RouteError};
use crate::store::Store;

const DOCKER_CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");

pub(crate) fn router(store: Arc<Store>) -> Router {
    Router::new().fallback(answer).with_state(store)
}

async fn answer(State(store): State<Arc<Store>>, request: Request) -> Response {
    let mut response = dispatch(store, request).await.unwrap_or_else(IntoResponse::into_response);
    response.headers_mut().insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    response
}

async fn dispatch(store: Arc<Store>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let route = Route::parse(parts.uri.path()).map_err(|error| match error {
        RouteError::BadName(name) => ApiError::NameInvalid(name),
        RouteError::Unknown => ApiError::NotFound(parts.uri.path().to_owned()),
    })?;
    let unsupported = || Err(ApiError::Unsupported(format!("{} {}", parts.method, parts.uri.path())));
    match (parts.method.clone(), route) {
        (Method::GET | Method::HEAD, Route::Base) => Ok(listing::base()),
        (Method::GET, Route::Catalog) => listing::catalog(store, &parts).await,
        (Method::GET, Route::Tags(name)) => listing::tags(store, name, &parts).await,
        (Method::GET, Route::Referrers(name, digest)) => listing::referrers(store, name, &digest, &parts).await,
        (Method::GET | Method::HEAD, Route::Blob(name, digest)) => blobs::get(store, name, &digest, &parts).await,
        (Method::DELETE, Route::Blob(name, digest)) => blobs::delete(store, name, &digest).await,
        (Method::POST, Route::Uploads(name)) => uploads::start(store, name, &parts, body).await,
        (Method::GET, Route::Upload(name, id)) => uploads::status(store, name, id).await,
        (Method::PATCH, Route::Upload(name, id)) => uploads::patch(store, name, id, &parts, body).await,
        (Method::PUT, Route::Upload(name, id)) => uploads::put(store, name, id, &parts, body).await,
        (Method::DELETE, Route::Upload(name, id)) => uploads::cancel(store, name, id).await,
        (Method::GET | Method::HEAD, Route::Manifest(name, text)) => {
            manifests::get(store, name, &text, &parts.method).await
        }
        (Method::PUT, Route::Manifest(name, text)) => manifests::put(store, name, &text, &parts, body).await,
        (Method::DELETE, Route::Manifest(name, text)) => manifests::delete(store, name, &text).await,
        _ => unsupported(),
    }
}

/// Runs blocking storage work off the event loop.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Into<ApiError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(error) => Err(ApiError::Storage(std::io::Error::other(error))),
    }
}

fn digest(text: &str) -> Result<Digest, ApiError> {
    text.parse().map_err(|()| ApiError::DigestInvalid(format!("{text} is not a sha256 or sha512 digest")))
}

/// Decoded values of a query parameter.
fn query(parts: &Parts, key: &str) -> Vec<String> {
    let Ok(axum::extract::Query(pairs)) = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
    else {
        return Vec::new();
    };
    pairs.into_iter().filter(|(name, _)| name == key).map(|(_, value)| value).collect()
}

fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}

/// A response without a body; header values are names and numbers of ours, or checked text.
fn empty(status: StatusCode, headers: &[(HeaderName, String)]) -> Response {
    with_body(status, headers, Body::empty())
}

fn with_body(status: StatusCode, headers: &[(HeaderName, String)], body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
