//! A registry client: authorisation, retries, manifests. Blobs are in [`blob`] and [`download`].

pub(crate) mod blob;
mod challenge;
mod connect;
pub(crate) mod download;
mod error;
mod retry;
mod token;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use rand::Rng;
use reqwest::{RequestBuilder, Response, Url};

pub use connect::PlainHttp;
pub(crate) use connect::{Access, Connection};
pub use error::ClientError;
pub use retry::RetryPolicy;

use crate::digest::Digest;
use crate::media;
use crate::reference::Repository;
use retry::Failure;
use token::Authorizer;

/// Longest wait for an answer to a small request.
const ANSWER: Duration = Duration::from_mins(1);
/// Manifests larger than this are not read (the usual limit of registries).
const MAX_MANIFEST: usize = 4 << 20;
/// Answers with an error are quoted up to this length.
const MAX_ERROR: usize = 2 << 10;

/// A manifest as the registry gave it.
pub(crate) struct FetchedManifest {
    pub(crate) digest: Digest,
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

/// Talks to one repository.
pub(crate) struct RegistryClient {
    http: reqwest::Client,
    base: Url,
    repository: Repository,
    authorizer: Authorizer,
    pub(crate) retry: RetryPolicy,
}

impl RegistryClient {
    pub(crate) fn connect(repository: &Repository, connection: &Connection<'_>) -> Result<Self, ClientError> {
        let base = connect::base(repository, connection.plain_http)?;
        let http = connect::http_client(&base, repository.is_loopback(), connection.ca_file)?;
        let credential = connection.auth.credential(repository)?;
        let authorizer = Authorizer::new(credential, connect::scopes(repository, connection));
        Ok(Self { http, base, repository: repository.clone(), authorizer, retry: connection.retry.clone() })
    }

    fn url(&self, rest: &str) -> Result<Url, ClientError> {
        let path = format!("v2/{}/{rest}", self.repository.name);
        self.base.join(&path).map_err(|error| ClientError::Protocol(format!("bad URL {path}: {error}")))
    }

    /// Adds what the registry wants to see, but only to requests that go to the registry itself.
    async fn authorize(&self, request: RequestBuilder, url: &Url) -> Result<RequestBuilder, ClientError> {
        if url.origin() != self.base.origin() {
            return Ok(request);
        }
        match self.authorizer.header(&self.http, &self.base).await? {
            Some(value) => Ok(request.header(header::AUTHORIZATION, value)),
            None => Ok(request),
        }
    }

    /// Sends once; after a challenge, once more.
    async fn attempt(&self, method: &Method, url: &Url, edit: &Edit<'_>) -> Result<Response, ClientError> {
        let response = self.send_plain(method, url, edit).await?;
        if response.status() != StatusCode::UNAUTHORIZED || url.origin() != self.base.origin() {
            return Ok(response);
        }
        if !self.authorizer.learn(&self.http, &self.base, response.headers()).await? {
            return Ok(response);
        }
        self.send_plain(method, url, edit).await
    }

    async fn send_plain(&self, method: &Method, url: &Url, edit: &Edit<'_>) -> Result<Response, ClientError> {
        let request = edit(self.http.request(method.clone(), url.clone()));
        let request = self.authorize(request, url).await?;
        let transport = |source: reqwest::Error| ClientError::transport(method, url, source);
        match tokio::time::timeout(ANSWER, request.send()).await {
            Ok(answer) => answer.map_err(transport),
            Err(_) => Err(ClientError::Silent { method: method.to_string(), url: shown(url) }),
        }
    }

    /// Sends a small request, with retries; any answer that is not worth another try is returned.
    async fn send(&self, method: Method, url: &Url, edit: &Edit<'_>) -> Result<Response, ClientError> {
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(&method, url, edit).await;
            let failure = match &outcome {
                Ok(response) => failure_of(response),
                Err(error) => error.failure(),
            };
            let Some(wait) = failure.and_then(|failure| self.retry.wait(attempt, failure, jitter())) else {
                return outcome;
            };
            tracing::debug!(%method, url = shown(url), attempt, ?wait, "registry request failed, trying again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// The manifest behind a tag or digest, checked against its digest; `None` when there is none.
    pub(crate) async fn manifest(&self, reference: &str) -> Result<Option<FetchedManifest>, ClientError> {
        let url = self.url(&format!("manifests/{reference}"))?;
        let accept = [media::IMAGE_MANIFEST, media::IMAGE_INDEX, media::DOCKER_MANIFEST, media::DOCKER_LIST].join(", ");
        let response = self.send(Method::GET, &url, &|request| request.header(header::ACCEPT, &accept)).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let response = expect(&Method::GET, &url, response, &[StatusCode::OK]).await?;
        let media_type = text_header(&response, &header::CONTENT_TYPE).unwrap_or_default();
        let bytes = read_bounded(response, MAX_MANIFEST).await?;
        let digest = Digest::of(&bytes);
        if reference.contains(':') && reference != digest.as_str() {
            return Err(ClientError::WrongDigest { expected: reference.to_owned(), found: digest.to_string() });
        }
        Ok(Some(FetchedManifest { digest, media_type, bytes }))
    }

    /// Stores a manifest under a tag or its digest; returns whether the registry lists it as a referrer by itself.
    pub(crate) async fn put_manifest(
        &self,
        reference: &str,
        media_type: &str,
        bytes: &Bytes,
    ) -> Result<bool, ClientError> {
        let url = self.url(&format!("manifests/{reference}"))?;
        let edit = |request: RequestBuilder| request.header(header::CONTENT_TYPE, media_type).body(bytes.clone());
        let response = self.send(Method::PUT, &url, &edit).await?;
        let good = [StatusCode::CREATED, StatusCode::OK, StatusCode::ACCEPTED];
        let response = expect(&Method::PUT, &url, response, &good).await?;
        Ok(response.headers().contains_key("oci-subject"))
    }

    /// All tags, page by page, at most `limit`.
    pub(crate) async fn tags(&self, limit: usize) -> Result<Vec<String>, ClientError> {
        let mut tags: Vec<String> = Vec::new();
        let mut url = self.url("tags/list?n=1000")?;
        loop {
            let response = self.send(Method::GET, &url, &|request| request).await?;
            let response = expect(&Method::GET, &url, response, &[StatusCode::OK]).await?;
            let next = text_header(&response, &header::LINK).and_then(|link| next_page(&url, &link));
            let bytes = read_bounded(response, MAX_MANIFEST).await?;
            let page: TagList = serde_json::from_slice(&bytes)
                .map_err(|error| ClientError::Protocol(format!("the list of tags cannot be read: {error}")))?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(next) if tags.len() < limit && next.origin() == url.origin() && next != url => url = next,
                _ => break,
            }
        }
        tags.truncate(limit);
        Ok(tags)
    }
}

/// Completes a request; called again for each try.
type Edit<'a> = dyn Fn(RequestBuilder) -> RequestBuilder + Send + Sync + 'a;

#[derive(serde::Deserialize)]
struct TagList {
    tags: Option<Vec<String>>,
}

/// The URL of a `Link: <...>; rel="next"` header.
fn next_page(url: &Url, link: &str) -> Option<Url> {
    let (target, relation) = link.strip_prefix('<')?.split_once('>')?;
    relation.contains("next").then(|| url.join(target).ok()).flatten()
}

fn jitter() -> f64 {
    rand::rng().random_range(0.0..1.0)
}

fn failure_of(response: &Response) -> Option<Failure> {
    let status = response.status();
    (status.is_client_error() || status.is_server_error())
        .then(|| Failure::Status { code: status.as_u16(), retry_after: retry_after(response) })
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = text_header(response, &header::RETRY_AFTER)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn text_header(response: &Response, name: &header::HeaderName) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A URL for messages: without its query, which may hold upload state or signatures.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}

/// The response when its status is one of `good`, else the registry's own words.
async fn expect(method: &Method, url: &Url, response: Response, good: &[StatusCode]) -> Result<Response, ClientError> {
    if good.contains(&response.status()) {
        return Ok(response);
    }
    let code = response.status().as_u16();
    let retry_after = retry_after(&response);
    let body = read_prefix(response, MAX_ERROR).await;
    Err(ClientError::Status { method: method.to_string(), url: shown(url), code, message: words(&body), retry_after })
}

/// The messages of an error body, or its text when it is not of the API's form.
fn words(body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<serde_json::Value>(body).ok();
    let errors = parsed.as_ref().and_then(|value| value.get("errors")?.as_array());
    let messages = errors.map(|errors| {
        let message = |one: &serde_json::Value| {
            let field = |name: &str| one.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            format!("{} {}", field("code"), field("message"))
        };
        errors.iter().map(message).collect::<Vec<_>>().join("; ")
    });
    let text = messages.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    text.chars().filter(|character| !character.is_control()).take(300).collect()
}

async fn read_prefix(mut response: Response, max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Ok(Some(part))) = tokio::time::timeout(ANSWER, response.chunk()).await {
        bytes.extend_from_slice(&part[..part.len().min(max - bytes.len())]);
        if bytes.len() >= max {
            break;
        }
    }
    bytes
}

async fn read_bounded(mut response: Response, max: usize) -> Result<Bytes, ClientError> {
    let url = response.url().clone();
    let mut bytes = Vec::new();
    loop {
        let silent = |_| ClientError::Silent { method: "GET".to_owned(), url: shown(&url) };
        let part = tokio::time::timeout(ANSWER, response.chunk()).await.map_err(silent)?;
        match part.map_err(|source| ClientError::transport(&Method::GET, &url, source))? {
            Some(part) if bytes.len() + part.len() > max => {
                return Err(ClientError::Protocol(format!("{} is larger than {max} bytes", shown(&url))));
            }
            Some(part) => bytes.extend_from_slice(&part),
            None => return Ok(bytes.into()),
        }
    }
}
