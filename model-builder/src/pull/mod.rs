//! Pulling an image into a content-addressed store: a folder appears only when every digest has been checked.

mod extract;
mod folder;
mod layer;
mod resolve;
mod store;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::auth::Auth;
use crate::client::{Access, ClientError, Connection, PlainHttp, RegistryClient, RetryPolicy};
use crate::digest::Digest;
use crate::push::{Progress, ProgressSink};
use crate::reference::{ImageReference, ReferenceError};

pub use folder::pull_into;
pub use store::clean_store;

use resolve::Image;
use store::{Claim, Store};

const TICK: Duration = Duration::from_millis(200);

/// What to pull, where to, and how.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// `host[:port]/name@sha256:...` or `host[:port]/name:tag`.
    pub reference: String,
    /// Folder of the store; images are under `<store>/<sha256 hex>/rootfs`.
    pub store: PathBuf,
    /// Credentials.
    pub auth: Auth,
    /// When to go without TLS.
    pub plain_http: PlainHttp,
    /// More certificate authorities (PEM).
    pub ca_file: Option<PathBuf>,
    /// What an image may hold.
    pub limits: PullLimits,
    /// Patience with the registry.
    pub retry: RetryPolicy,
}

impl PullRequest {
    /// A request with defaults: anonymous, plain http on loopback only.
    pub fn new(reference: impl Into<String>, store: impl Into<PathBuf>) -> Self {
        Self {
            reference: reference.into(),
            store: store.into(),
            auth: Auth::Anonymous,
            plain_http: PlainHttp::default(),
            ca_file: None,
            limits: PullLimits::default(),
            retry: RetryPolicy::default(),
        }
    }
}

/// What an image may hold; more is refused.
#[derive(Debug, Clone)]
pub struct PullLimits {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files and folders.
    pub entries: u64,
    /// Layers that are loaded at a time.
    pub parallel: usize,
    /// Longest wait for another process that pulls the same image.
    pub wait: Duration,
}

impl Default for PullLimits {
    fn default() -> Self {
        Self { bytes: 1 << 40, entries: 200_000, parallel: 3, wait: Duration::from_mins(30) }
    }
}

/// An image on disk. Its files are read-only and complete.
#[derive(Debug, Clone, PartialEq)]
pub struct PulledImage {
    /// What was asked for, as a digest.
    pub digest: String,
    /// The folder with the image's files.
    pub path: PathBuf,
    /// Bytes of all layers.
    pub size_bytes: u64,
    /// The image manifest.
    pub manifest: serde_json::Value,
}

/// A pull that failed; the store is as before.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The reference is malformed.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The registry has no such image.
    #[error("image {0} is not in the registry; check its name and that it was pushed")]
    NotFound(String),
    /// The registry is the reason.
    #[error("cannot pull {reference}: {source}")]
    Registry {
        /// The image.
        reference: String,
        /// What went wrong.
        source: ClientError,
    },
    /// The image cannot be used here.
    #[error("image {reference} cannot be used: {why}")]
    Unusable {
        /// The image.
        reference: String,
        /// What is wrong.
        why: String,
    },
    /// A layer is not safe to unpack.
    #[error("image {reference} holds {entry:?}, which is refused: {why}")]
    Unsafe {
        /// The image.
        reference: String,
        /// The entry.
        entry: String,
        /// The rule.
        why: String,
    },
    /// The store cannot be used.
    #[error("the image store {} failed: {source}", path.display())]
    Store {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process did not finish in time.
    #[error("another process has been pulling {0} for too long")]
    Busy(String),
    /// The runtime is going away.
    #[error("the pull was stopped")]
    Stopped,
}

impl PullError {
    /// A stable word for events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reference(_) => "InvalidReference",
            Self::NotFound(_) => "ImageNotFound",
            Self::Registry { source: ClientError::Status { code: 401 | 403, .. }, .. } => "RegistryDenied",
            Self::Registry { source: ClientError::Auth(_), .. } => "CredentialsInvalid",
            Self::Registry { .. } => "RegistryFailed",
            Self::Unusable { .. } => "ImageInvalid",
            Self::Unsafe { .. } => "ImageUnsafe",
            Self::Store { .. } => "ImageStoreFailed",
            Self::Busy(_) => "ImageBusy",
            Self::Stopped => "Stopped",
        }
    }
}

/// Pulls an image, or finds it in the store. Safe to call at the same time from several tasks and processes, and after
/// a kill at any point.
pub async fn pull(request: &PullRequest, progress: ProgressSink) -> Result<PulledImage, PullError> {
    Box::pin(pull_boxed(request, progress)).await
}

async fn pull_boxed(request: &PullRequest, progress: ProgressSink) -> Result<PulledImage, PullError> {
    let reference: ImageReference = request.reference.parse()?;
    let store = Store::open(&request.store)?;
    if let Some(digest) = &reference.digest
        && let Some(image) = store.find(digest)?
    {
        return Ok(image);
    }
    let client = connect(request, &reference).map_err(registry(request))?;
    let image = resolve::resolve(&client, &request.reference, &reference).await?;
    let deadline = tokio::time::Instant::now() + request.limits.wait;
    loop {
        if let Some(found) = store.find(&image.digest)? {
            return Ok(found);
        }
        if let Some(claim) = store.claim(&image.digest)? {
            return fill(request, client, &image, &store, claim, &progress).await;
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(PullError::Busy(request.reference.clone()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn connect(request: &PullRequest, reference: &ImageReference) -> Result<Arc<RegistryClient>, ClientError> {
    let connection = Connection {
        auth: &request.auth,
        plain_http: request.plain_http,
        ca_file: request.ca_file.as_deref(),
        access: Access::Pull,
        read_also: &[],
        retry: &request.retry,
    };
    Ok(Arc::new(RegistryClient::connect(&reference.repository, &connection)?))
}

fn registry(request: &PullRequest) -> impl Fn(ClientError) -> PullError {
    let reference = request.reference.clone();
    move |source| match source {
        ClientError::WrongDigest { expected, found } => PullError::Unusable {
            reference: reference.clone(),
            why: format!("its content has digest {found}, expected {expected}"),
        },
        source => PullError::Registry { reference: reference.clone(), source },
    }
}

/// Loads all layers into the claimed folder and publishes it.
async fn fill(
    request: &PullRequest,
    client: Arc<RegistryClient>,
    image: &Image,
    store: &Store,
    claim: Claim,
    progress: &ProgressSink,
) -> Result<PulledImage, PullError> {
    // Another process may have finished between the look and the claim.
    if let Some(found) = store.find(&image.digest)? {
        return Ok(found);
    }
    let files = image.layers.len() as u64;
    progress(Progress::Planned { files, bytes: image.size, layers: image.layers.len() });
    let job = Arc::new(layer::Job {
        client,
        reference: request.reference.clone(),
        root: claim.root()?,
        budget: extract::Budget::new(request.limits.bytes, request.limits.entries),
        moved: AtomicU64::new(0),
    });
    let mut waiting = image.layers.iter().cloned();
    let mut running: JoinSet<Result<(), PullError>> = JoinSet::new();
    loop {
        while running.len() < request.limits.parallel.max(1)
            && let Some(layer) = waiting.next()
        {
            running.spawn(layer::load(Arc::clone(&job), layer));
        }
        match tokio::time::timeout(TICK, running.join_next()).await {
            Err(_) => {
                let bytes = job.moved.load(Ordering::Relaxed).min(image.size);
                progress(Progress::Moved { bytes, total: image.size });
            }
            Ok(None) => break,
            Ok(Some(outcome)) => outcome.map_err(|_| PullError::Stopped)??,
        }
    }
    progress(Progress::Moved { bytes: image.size, total: image.size });
    let manifest = image.manifest.clone();
    let publish = move || claim.publish(&manifest);
    tokio::task::spawn_blocking(publish).await.map_err(|_| PullError::Stopped)??;
    store.find(&image.digest)?.ok_or(PullError::Stopped)
}

/// Digest of an image and where it would be in a store.
pub(crate) fn image_dir(store: &std::path::Path, digest: &Digest) -> PathBuf {
    store.join(digest.hex())
}
