//! Downloading blobs: a stream that goes on after a broken connection, by range.

use bytes::Bytes;
use http::{Method, StatusCode, header};
use reqwest::Response;
use tokio::sync::mpsc;

use super::{ANSWER, ClientError, RegistryClient, expect, jitter, shown};
use crate::digest::Digest;

impl RegistryClient {
    /// Sends exactly `size` bytes of a blob into `sink`, in order. A closed sink ends the download early without an
    /// error: the reader knows why.
    pub(crate) async fn download(
        &self,
        digest: &Digest,
        size: u64,
        sink: mpsc::Sender<Bytes>,
    ) -> Result<(), ClientError> {
        let mut offset = 0;
        let mut attempt = 1;
        loop {
            let before = offset;
            let outcome = self.download_from(digest, size, &mut offset, &sink).await;
            let error = match outcome {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // Progress earns new tries: only a row of failures without a byte gives up.
            attempt = if offset > before { 1 } else { attempt + 1 };
            let wait = error.failure().and_then(|failure| self.retry.wait(attempt, failure, jitter()));
            let Some(wait) = wait else { return Err(error) };
            tracing::debug!(%error, attempt, offset, ?wait, "blob download failed, going on");
            tokio::time::sleep(wait).await;
        }
    }

    async fn download_from(
        &self,
        digest: &Digest,
        size: u64,
        offset: &mut u64,
        sink: &mpsc::Sender<Bytes>,
    ) -> Result<(), ClientError> {
        let (mut response, mut skip) = self.open_download(digest, *offset).await?;
        let url = response.url().clone();
        while *offset < size {
            let silent = |_| ClientError::Silent { method: "GET".to_owned(), url: shown(&url) };
            let part = tokio::time::timeout(ANSWER, response.chunk()).await.map_err(silent)?;
            let part = part.map_err(|source| ClientError::transport(&Method::GET, &url, source))?;
            let Some(mut part) = part else {
                let message = format!("the blob ended after {offset} of {size} bytes");
                return Err(ClientError::Transport { method: "GET".to_owned(), url: shown(&url), message });
            };
            let drop = skip.min(part.len() as u64);
            skip -= drop;
            part = part.slice(usize::try_from(drop).unwrap_or(part.len())..);
            *offset += part.len() as u64;
            if *offset > size {
                return Err(ClientError::Protocol(format!("blob {digest} is longer than its {size} bytes")));
            }
            if !part.is_empty() && sink.send(part).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The open response and how many of its bytes we have already (when the server ignores ranges).
    async fn open_download(&self, digest: &Digest, offset: u64) -> Result<(Response, u64), ClientError> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let edit = |request: reqwest::RequestBuilder| {
            if offset == 0 { request } else { request.header(header::RANGE, format!("bytes={offset}-")) }
        };
        let response = self.send(Method::GET, &url, &edit).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(ClientError::BlobUnknown(digest.to_string()));
        }
        let good = [StatusCode::OK, StatusCode::PARTIAL_CONTENT];
        let response = expect(&Method::GET, &url, response, &good).await?;
        let skip = if response.status() == StatusCode::OK { offset } else { 0 };
        Ok((response, skip))
    }
}
