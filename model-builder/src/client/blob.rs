//! Uploading blobs: skip, mount, one PUT, or one streamed PATCH that is hashed in flight and can go on after a break.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::{Method, StatusCode, header};
use reqwest::{Body, Response, Url};

use super::{ClientError, RegistryClient, expect, failure_of, jitter, shown, text_header};
use crate::digest::Digest;
use crate::pack::PackError;

/// An upload that moves no byte for this long has failed.
const STALLED: Duration = Duration::from_mins(1);

/// Content that can be read again from its start.
pub(crate) trait BlobSource: Send + Sync {
    /// Bytes in all.
    fn size(&self) -> u64;
    /// The content from byte `skip` on; the future gives the digest of all of it once the stream has ended.
    fn open(&self, skip: u64) -> OpenBlob;
}

/// A blob that is being read.
pub(crate) struct OpenBlob {
    pub(crate) stream: BoxStream<'static, Result<Bytes, std::io::Error>>,
    pub(crate) digest: BoxFuture<'static, Result<Digest, ClientError>>,
}

/// Bytes moved so far, over all tries; for progress and for noticing a standstill.
pub(crate) type Counter = Arc<AtomicU64>;

/// How a blob got into the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Skipped,
    Mounted,
    Sent,
}

/// A started upload, and how far it is.
struct Session {
    url: Url,
    offset: u64,
}

impl RegistryClient {
    /// Whether the repository has the blob.
    pub(crate) async fn has_blob(&self, digest: &Digest) -> Result<bool, ClientError> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let response = self.send(Method::HEAD, &url, &|request| request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => expect(&Method::HEAD, &url, response, &[StatusCode::OK]).await.map(|_| true),
        }
    }

    /// Uploads content whose digest is known, unless it is there or can be mounted from another repository.
    pub(crate) async fn push_known(
        &self,
        digest: &Digest,
        source: &dyn BlobSource,
        mount_from: &[String],
        moved: &Counter,
    ) -> Result<Outcome, ClientError> {
        if self.has_blob(digest).await? {
            return Ok(Outcome::Skipped);
        }
        let mut session = None;
        for from in mount_from {
            if let Some(old) = session.take() {
                self.cancel(&old).await;
            }
            session = self.mount(digest, from).await?;
            if session.is_none() {
                return Ok(Outcome::Mounted);
            }
        }
        let mut attempt = 1;
        loop {
            let error = match self.put_whole(digest, source, session.take(), moved).await {
                Ok(()) => return Ok(Outcome::Sent),
                Err(error) => error,
            };
            self.pause(attempt, error).await?;
            // The registry may have committed and only the answer got lost.
            if self.has_blob(digest).await? {
                return Ok(Outcome::Sent);
            }
            attempt += 1;
        }
    }

    /// Waits before another try, or gives the error back.
    async fn pause(&self, attempt: u32, error: ClientError) -> Result<(), ClientError> {
        let wait = error.failure().and_then(|failure| self.retry.wait(attempt, failure, jitter()));
        let Some(wait) = wait else { return Err(error) };
        tracing::debug!(%error, attempt, ?wait, "blob upload failed, trying again");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn put_whole(
        &self,
        digest: &Digest,
        source: &dyn BlobSource,
        session: Option<Session>,
        moved: &Counter,
    ) -> Result<(), ClientError> {
        let session = match session {
            Some(session) => session,
            None => self.start_session().await?,
        };
        let url = with_digest(&session.url, digest);
        let open = source.open(0);
        let outcome = self.transfer(Method::PUT, &url, open.stream, 0, source.size(), moved).await;
        let response = match outcome {
            Ok(response) => expect(&Method::PUT, &url, response, &[StatusCode::CREATED, StatusCode::OK]).await,
            Err(error) => Err(error),
        };
        if let Err(error) = response {
            self.cancel(&session).await;
            return Err(self.source_error(open.digest, error).await);
        }
        let found = open.digest.await?;
        same(digest, &found)
    }

    /// When reading failed, that is the cause, not the broken request.
    async fn source_error(
        &self,
        digest: BoxFuture<'static, Result<Digest, ClientError>>,
        error: ClientError,
    ) -> ClientError {
        match tokio::time::timeout(Duration::from_secs(1), digest).await {
            Ok(Err(ClientError::Source(source))) if !matches!(*source, PackError::Stopped) => {
                ClientError::Source(source)
            }
            _ => error,
        }
    }

    /// Sends content whose digest is not known yet; returns it.
    pub(crate) async fn push_stream(&self, source: &dyn BlobSource, moved: &Counter) -> Result<Digest, ClientError> {
        let mut attempt = 1;
        let mut session: Option<Session> = None;
        loop {
            let error = match self.stream_once(source, &mut session, moved).await {
                Ok(digest) => return Ok(digest),
                Err(error) => error,
            };
            if let Err(error) = self.pause(attempt, error).await {
                if let Some(session) = &session {
                    self.cancel(session).await;
                }
                return Err(error);
            }
            session = match session {
                Some(broken) => self.resume(broken, source.size()).await,
                None => None,
            };
            attempt += 1;
        }
    }

    /// One try: what is missing of the content, then the commit. The session stays for the next try.
    async fn stream_once(
        &self,
        source: &dyn BlobSource,
        session: &mut Option<Session>,
        moved: &Counter,
    ) -> Result<Digest, ClientError> {
        let current = match session {
            Some(session) => session,
            None => session.insert(self.start_session().await?),
        };
        let digest = self.patch_rest(source, current, moved).await?;
        match self.commit(current, &digest).await {
            Ok(()) => Ok(digest),
            Err(error) if self.has_blob(&digest).await.unwrap_or(false) => {
                tracing::debug!(%error, "the registry has the blob although the answer got lost");
                Ok(digest)
            }
            Err(error) => Err(error),
        }
    }

    /// One PATCH with everything from the session's offset on.
    async fn patch_rest(
        &self,
        source: &dyn BlobSource,
        session: &mut Session,
        moved: &Counter,
    ) -> Result<Digest, ClientError> {
        let size = source.size();
        let mut open = source.open(session.offset);
        if session.offset == size {
            // Everything arrived in an earlier try: only the digest is missing.
            while open.stream.next().await.is_some() {}
            return open.digest.await;
        }
        let url = session.url.clone();
        let outcome = self.transfer(Method::PATCH, &url, open.stream, session.offset, size, moved).await;
        let good = [StatusCode::ACCEPTED, StatusCode::CREATED, StatusCode::NO_CONTENT, StatusCode::OK];
        let response = match outcome {
            Ok(response) => expect(&Method::PATCH, &url, response, &good).await,
            Err(error) => Err(error),
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => return Err(self.source_error(open.digest, error).await),
        };
        if let Some(next) = location(&url, &response) {
            session.url = next;
        }
        session.offset = size;
        open.digest.await
    }

    async fn commit(&self, session: &Session, digest: &Digest) -> Result<(), ClientError> {
        let url = with_digest(&session.url, digest);
        let edit = |request: reqwest::RequestBuilder| {
            request.header(header::CONTENT_LENGTH, 0).header(header::CONTENT_TYPE, "application/octet-stream")
        };
        let response = self.attempt(&Method::PUT, &url, &edit).await?;
        let good = [StatusCode::CREATED, StatusCode::OK, StatusCode::NO_CONTENT];
        let response = expect(&Method::PUT, &url, response, &good).await?;
        match response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok()) {
            Some(found) if found.starts_with("sha256:") && found != digest.as_str() => {
                Err(ClientError::WrongDigest { expected: digest.to_string(), found: found.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Asks how much of a broken upload arrived; `None`: start over.
    async fn resume(&self, session: Session, size: u64) -> Option<Session> {
        let response = self.attempt(&Method::GET, &session.url, &|request| request).await.ok()?;
        if !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::ACCEPTED | StatusCode::OK) {
            self.cancel(&session).await;
            return None;
        }
        let range = text_header(&response, &header::RANGE)?;
        let last: u64 = range.trim_start_matches("bytes=").strip_prefix("0-")?.parse().ok()?;
        // `0-0` is what registries say for nothing and for one byte: take it for nothing and start over.
        if last == 0 || last >= size {
            self.cancel(&session).await;
            return None;
        }
        let url = location(&session.url, &response).unwrap_or(session.url);
        Some(Session { url, offset: last + 1 })
    }

    async fn start_session(&self) -> Result<Session, ClientError> {
        let url = self.url("blobs/uploads/")?;
        let edit = |request: reqwest::RequestBuilder| request.header(header::CONTENT_LENGTH, 0);
        // One try: whoever needs the session tries again as a whole.
        let response = self.attempt(&Method::POST, &url, &edit).await?;
        let response = expect(&Method::POST, &url, response, &[StatusCode::ACCEPTED]).await?;
        self.session_of(&url, &response)
    }

    fn session_of(&self, url: &Url, response: &Response) -> Result<Session, ClientError> {
        let next = location(url, response)
            .ok_or_else(|| ClientError::Protocol("an upload was started without a Location".to_owned()))?;
        if self.base.scheme() == "https" && next.scheme() != "https" {
            return Err(ClientError::Protocol(format!("the upload goes to {}, which is not https", shown(&next))));
        }
        Ok(Session { url: next, offset: 0 })
    }

    /// Asks for a blob of another repository; an answered session (when the registry will not) is returned.
    async fn mount(&self, digest: &Digest, from: &str) -> Result<Option<Session>, ClientError> {
        let mut url = self.url("blobs/uploads/")?;
        url.query_pairs_mut().append_pair("mount", digest.as_str()).append_pair("from", from);
        let edit = |request: reqwest::RequestBuilder| request.header(header::CONTENT_LENGTH, 0);
        let response = self.send(Method::POST, &url, &edit).await?;
        let good = [StatusCode::CREATED, StatusCode::ACCEPTED];
        let response = expect(&Method::POST, &url, response, &good).await?;
        if response.status() == StatusCode::CREATED {
            return Ok(None);
        }
        self.session_of(&url, &response).map(Some)
    }

    /// Best effort: an upload that will not be finished should not stay.
    async fn cancel(&self, session: &Session) {
        let cancel = self.attempt(&Method::DELETE, &session.url, &|request| request);
        let _ = tokio::time::timeout(Duration::from_secs(2), cancel).await;
    }

    /// Sends a body of known length; notices when nothing moves any more.
    async fn transfer(
        &self,
        method: Method,
        url: &Url,
        stream: BoxStream<'static, Result<Bytes, std::io::Error>>,
        offset: u64,
        size: u64,
        moved: &Counter,
    ) -> Result<Response, ClientError> {
        let counter = Arc::clone(moved);
        let counted = stream.inspect_ok(move |bytes| {
            counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        });
        let mut request = self
            .http
            .request(method.clone(), url.clone())
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_LENGTH, size - offset)
            .body(Body::wrap_stream(counted.boxed()));
        if offset > 0 {
            request = request.header(header::CONTENT_RANGE, format!("{offset}-{}", size - 1));
        }
        let sending = self.authorize(request, url).await?.send();
        let response = watched(sending, moved).await;
        let silent = || ClientError::Silent { method: method.to_string(), url: shown(url) };
        let response = response.ok_or_else(silent)?.map_err(|source| ClientError::transport(&method, url, source))?;
        if response.status() == StatusCode::UNAUTHORIZED && url.origin() == self.base.origin() {
            // The body is spent: learn what is wanted now, and let the caller's next try show it.
            if self.authorizer.learn(&self.http, &self.base, response.headers()).await? {
                let message = "the token expired during the upload".to_owned();
                return Err(ClientError::Transport { method: method.to_string(), url: shown(url), message });
            }
        }
        match failure_of(&response) {
            Some(_) => expect(&method, url, response, &[]).await,
            None => Ok(response),
        }
    }
}

/// Runs a request for as long as bytes move; `None` when they stood still.
async fn watched<T>(sending: impl Future<Output = T>, moved: &Counter) -> Option<T> {
    let mut sending = std::pin::pin!(sending);
    let mut before = moved.load(Ordering::Relaxed);
    loop {
        if let Ok(done) = tokio::time::timeout(STALLED, sending.as_mut()).await {
            return Some(done);
        }
        let now = moved.load(Ordering::Relaxed);
        if now == before {
            return None;
        }
        before = now;
    }
}

/// `Location` may be relative, absolute, on another host, with a query.
fn location(url: &Url, response: &Response) -> Option<Url> {
    url.join(&text_header(response, &header::LOCATION)?).ok()
}

fn with_digest(url: &Url, digest: &Digest) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut().append_pair("digest", digest.as_str());
    url
}

fn same(expected: &Digest, found: &Digest) -> Result<(), ClientError> {
    if expected == found {
        return Ok(());
    }
    Err(ClientError::WrongDigest { expected: expected.to_string(), found: found.to_string() })
}

/// Content in memory: configs.
pub(crate) struct SmallBlob(pub(crate) Bytes);

impl BlobSource for SmallBlob {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn open(&self, skip: u64) -> OpenBlob {
        let start = usize::try_from(skip).unwrap_or(usize::MAX).min(self.0.len());
        let rest = self.0.slice(start..);
        let digest = Digest::of(&self.0);
        OpenBlob {
            stream: futures::stream::once(async move { Ok(rest) }).boxed(),
            digest: Box::pin(async move { Ok(digest) }),
        }
    }
}
