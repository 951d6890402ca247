//! Embedded OCI registry: the distribution API over plain files, crash-safe and with bounded memory.
//!
//! A blob, manifest or tag that was acknowledged is on disk; a half-received one is a session that can go on or is
//! swept. Nothing is held in memory but the state of running uploads.

mod digest;
mod error;
mod http;
mod name;
mod range;
mod route;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// What a registry accepts.
#[derive(Debug, Clone)]
pub struct Options {
    /// Largest blob, in bytes; a larger upload is refused with 413.
    pub max_blob_bytes: u64,
    /// Largest manifest, in bytes (the specification asks for at least 4 MiB).
    pub max_manifest_bytes: usize,
    /// Most upload sessions at a time; more are refused with 429.
    pub max_sessions: usize,
    /// Refuse a manifest that names a blob or manifest which is not here.
    pub require_content: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_blob_bytes: 1 << 40, max_manifest_bytes: 4 << 20, max_sessions: 1024, require_content: true }
    }
}

/// Why a registry could not be opened or served.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The data folder cannot be used.
    #[error("cannot open the registry's data in {}: {source}; check that the folder is writable", dir.display())]
    Open {
        /// The folder.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server ended.
    #[error("the registry cannot serve: {0}")]
    Serve(#[from] std::io::Error),
}

/// A registry over one folder; clones share it.
#[derive(Clone)]
pub struct Registry {
    store: Arc<Store>,
}

impl Registry {
    /// Opens (or creates) the registry in `dir` and sweeps what a crash left behind.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, RegistryError> {
        Self::open_with(dir, Options::default())
    }

    /// Like [`Registry::open`] with other limits.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Self, RegistryError> {
        let dir = dir.as_ref();
        let store = Store::open(dir, options).map_err(|source| RegistryError::Open { dir: dir.to_owned(), source })?;
        Ok(Self { store: Arc::new(store) })
    }

    /// The distribution API under `/v2/`.
    pub fn router(&self) -> axum::Router {
        http::router(Arc::clone(&self.store))
    }

    /// Answers on `listener` until `stop`; running requests may finish.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) -> Result<(), RegistryError> {
        axum::serve(listener, self.router()).with_graceful_shutdown(stop.cancelled_owned()).await?;
        Ok(())
    }
}
