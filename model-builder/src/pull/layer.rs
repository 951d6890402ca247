//! One layer: downloaded, hashed, unpacked while it comes.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use tokio::sync::mpsc;

use super::PullError;
use super::extract::{self, Budget, Refused};
use super::resolve::LayerSource;
use crate::client::RegistryClient;
use crate::digest::{Digest, Hasher};

/// Parts that may wait for the disk.
const WAITING: usize = 8;

/// What all layers of a pull share.
pub(super) struct Job {
    pub(super) client: Arc<RegistryClient>,
    pub(super) reference: String,
    pub(super) root: OwnedFd,
    pub(super) budget: Budget,
    pub(super) moved: AtomicU64,
}

impl Job {
    fn unusable(&self, why: String) -> PullError {
        PullError::Unusable { reference: self.reference.clone(), why }
    }
}

pub(super) async fn load(job: Arc<Job>, layer: LayerSource) -> Result<(), PullError> {
    let (sink, parts) = mpsc::channel(WAITING);
    let (unpacking, unpacked) = (Arc::clone(&job), layer.clone());
    let unpack = tokio::task::spawn_blocking(move || unpack(&unpacking, &unpacked, parts));
    let download = job.client.download(&layer.digest, layer.size, sink).await;
    // What unpacking says comes first: it ends the download when it refuses the content.
    let unpack = unpack.await.map_err(|_| PullError::Stopped)?;
    match (download, unpack) {
        (Err(source), _) => Err(PullError::Registry { reference: job.reference.clone(), source }),
        (Ok(()), outcome) => outcome,
    }
}

fn unpack(job: &Job, layer: &LayerSource, parts: mpsc::Receiver<Bytes>) -> Result<(), PullError> {
    let mut stored = Hashing::new(Incoming { parts, current: Bytes::new(), moved: &job.moved });
    let diff_id =
        if layer.gzip { unpack_tar(job, MultiGzDecoder::new(&mut stored))? } else { unpack_tar(job, &mut stored)? };
    let digest = stored.finish().map_err(|error| job.unusable(error.to_string()))?;
    if digest != layer.digest {
        return Err(job.unusable(format!("a layer has digest {digest}, expected {}", layer.digest)));
    }
    if diff_id != layer.diff_id {
        return Err(job.unusable(format!("a layer's tar has digest {diff_id}, expected {}", layer.diff_id)));
    }
    Ok(())
}

fn unpack_tar(job: &Job, reader: impl Read) -> Result<Digest, PullError> {
    let mut tar = Hashing::new(reader);
    extract::extract(&job.root, &mut tar, &job.budget).map_err(|refused| match refused {
        Refused::Entry { entry, why } => PullError::Unsafe { reference: job.reference.clone(), entry, why },
        Refused::Damaged(error) => job.unusable(format!("a layer cannot be read: {error}")),
        Refused::Disk { entry, source } => PullError::Store { path: entry.into(), source },
    })?;
    tar.finish().map_err(|error| job.unusable(error.to_string()))
}

/// The download as a reader.
struct Incoming<'a> {
    parts: mpsc::Receiver<Bytes>,
    current: Bytes,
    moved: &'a AtomicU64,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.parts.blocking_recv() {
                Some(part) => self.current = part,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len());
        buffer[..count].copy_from_slice(&self.current.split_to(count));
        self.moved.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A reader that hashes what passes.
struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Hashing<R> {
    fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::default() }
    }

    /// Reads what is left (padding after the end of an archive) and gives the digest of everything.
    fn finish(mut self) -> io::Result<Digest> {
        let mut buffer = vec![0; 64 << 10];
        while self.read(&mut buffer)? > 0 {}
        Ok(self.hasher.finish())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}
