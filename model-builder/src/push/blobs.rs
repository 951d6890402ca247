//! Getting blobs into the repository, and counting what it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::documents::Document;
use super::{Progress, ProgressSink, TICK};
use crate::client::blob::{BlobSource, Counter, Outcome, SmallBlob};
use crate::client::{ClientError, RegistryClient};
use crate::digest::Digest;
use crate::pack::PackError;
use crate::pack::layers::Layer;
use crate::pack::stream::{self, LayerBlob};
use crate::report::UploadReport;
use crate::source::Tree;

/// Layers up to this size are hashed first: reading them twice costs less than sending them for nothing.
const HASH_FIRST: u64 = 16 << 20;

/// One push's transfers.
pub(super) struct Upload<'a> {
    client: &'a RegistryClient,
    tree: &'a Tree,
    mount_from: &'a [String],
    known_sizes: Vec<u64>,
    total: u64,
    /// Body bytes of all requests.
    moved: Counter,
    /// Bytes of finished layers.
    done: AtomicU64,
    skipped: AtomicU64,
    mounted: AtomicU64,
}

impl<'a> Upload<'a> {
    pub(super) fn new(
        client: &'a RegistryClient,
        tree: &'a Tree,
        mount_from: &'a [String],
        known_sizes: Vec<u64>,
        total: u64,
    ) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            client,
            tree,
            mount_from,
            known_sizes,
            total,
            moved: Counter::default(),
            done: zero(),
            skipped: zero(),
            mounted: zero(),
        }
    }

    /// Pushes all layers in order; gives their digests.
    pub(super) async fn layers(
        &self,
        layers: &[Arc<Layer>],
        progress: &ProgressSink,
    ) -> Result<Vec<Digest>, ClientError> {
        let mut digests = Vec::with_capacity(layers.len());
        for layer in layers {
            let digest = self.told(self.layer(layer), progress).await?;
            self.done.fetch_add(layer.size(), Ordering::Relaxed);
            digests.push(digest);
        }
        progress(Progress::Moved { bytes: self.total, total: self.total });
        Ok(digests)
    }

    /// Runs one layer's push and tells how far it is.
    async fn told<T>(&self, work: impl Future<Output = T>, progress: &ProgressSink) -> T {
        let mut work = Box::pin(work);
        let before = self.moved.load(Ordering::Relaxed);
        loop {
            if let Ok(output) = tokio::time::timeout(TICK, work.as_mut()).await {
                return output;
            }
            let now = self.moved.load(Ordering::Relaxed) - before;
            let bytes = (self.done.load(Ordering::Relaxed) + now).min(self.total);
            progress(Progress::Moved { bytes, total: self.total });
        }
    }

    async fn layer(&self, layer: &Arc<Layer>) -> Result<Digest, ClientError> {
        let source = LayerBlob { root: Arc::clone(&self.tree.root), layer: Arc::clone(layer) };
        let size = source.size();
        if size > HASH_FIRST && !self.known_sizes.contains(&size) {
            return self.client.push_stream(&source, &self.moved).await;
        }
        let (root, hashed) = (Arc::clone(&self.tree.root), Arc::clone(layer));
        let digest = tokio::task::spawn_blocking(move || stream::digest(&root, &hashed)).await;
        let digest = digest.unwrap_or(Err(PackError::Stopped)).map_err(|error| ClientError::Source(Box::new(error)))?;
        self.known(&digest, &source, self.mount_from).await?;
        Ok(digest)
    }

    async fn known(&self, digest: &Digest, source: &dyn BlobSource, mount: &[String]) -> Result<(), ClientError> {
        match self.client.push_known(digest, source, mount, &self.moved).await? {
            Outcome::Skipped => self.skipped.fetch_add(source.size(), Ordering::Relaxed),
            Outcome::Mounted => self.mounted.fetch_add(source.size(), Ordering::Relaxed),
            Outcome::Sent => 0,
        };
        Ok(())
    }

    /// Pushes small blobs: configs and the like.
    pub(super) async fn documents(&self, documents: &[&Document]) -> Result<(), ClientError> {
        for Document { digest, bytes } in documents {
            self.known(digest, &SmallBlob(Bytes::clone(bytes)), &[]).await?;
        }
        Ok(())
    }

    pub(super) fn report(&self) -> UploadReport {
        UploadReport {
            sent_bytes: self.moved.load(Ordering::Relaxed),
            skipped_bytes: self.skipped.load(Ordering::Relaxed),
            mounted_bytes: self.mounted.load(Ordering::Relaxed),
            seconds: 0.0,
        }
    }
}
