//! Pushing a training output: blobs, configs, manifests, and the tag last.

mod blobs;
mod documents;
mod metrics;
mod run_facts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::auth::Auth;
use crate::client::{Access, ClientError, Connection, PlainHttp, RegistryClient, RetryPolicy};
use crate::digest::Digest;
use crate::media;
use crate::pack::PackError;
use crate::pack::layers::{self, Layer};
use crate::reference::{ReferenceError, Repository, is_tag};
use crate::report::{PushReport, UploadReport};
use crate::source::format::{self, ModelFacts};
use crate::source::{SourceError, Tree};

use documents::Documents;
use run_facts::RunFacts;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(200);

/// What to push, where, and how.
#[derive(Debug, Clone)]
pub struct PushRequest {
    /// Folder with the training output.
    pub source: PathBuf,
    /// `host[:port]/name`.
    pub repository: String,
    /// Tag of the version.
    pub tag: String,
    /// Credentials.
    pub auth: Auth,
    /// When to go without TLS.
    pub plain_http: PlainHttp,
    /// More certificate authorities (PEM).
    pub ca_file: Option<PathBuf>,
    /// Facts about this run; stored beside the image, never in it, so that equal weights have an equal digest.
    pub metadata: Value,
    /// Move the tag even when it points to another image.
    pub force_tag: bool,
    /// What to do about pickles.
    pub pickle: PicklePolicy,
    /// Names of repositories on the same registry that may already have the layers.
    pub mount_from: Vec<String>,
    /// Patience with the registry.
    pub retry: RetryPolicy,
}

impl PushRequest {
    /// A request with defaults: anonymous, plain http on loopback only, the tag is not moved.
    pub fn new(source: impl Into<PathBuf>, repository: impl Into<String>, tag: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            repository: repository.into(),
            tag: tag.into(),
            auth: Auth::Anonymous,
            plain_http: PlainHttp::default(),
            ca_file: None,
            metadata: Value::Null,
            force_tag: false,
            pickle: PicklePolicy::default(),
            mount_from: Vec::new(),
            retry: RetryPolicy::default(),
        }
    }
}

/// What to do about files that run code when they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PicklePolicy {
    /// Refuse to push.
    Deny,
    /// Push, and name them in the report.
    #[default]
    Label,
}

/// Where a push or pull stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The files are known.
    Planned {
        /// Number of files.
        files: u64,
        /// Bytes of all layers.
        bytes: u64,
        /// Number of layers.
        layers: usize,
    },
    /// Bytes that are where they should be.
    Moved {
        /// So far.
        bytes: u64,
        /// In all.
        total: u64,
    },
}

/// Takes progress; called from the task that runs the push or pull, so it must not block.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// For callers who do not want to know.
pub fn no_progress() -> ProgressSink {
    Arc::new(|_| {})
}

/// A push that failed; the registry's tag is as before.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Repository or tag is malformed.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The tag is malformed.
    #[error("{0:?} is not a tag: at most 128 letters, digits and . _ -, not starting with . or -")]
    Tag(String),
    /// The files are the reason.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The registry is the reason.
    #[error("cannot push to {repository}: {source}")]
    Registry {
        /// The repository.
        repository: String,
        /// What went wrong.
        source: ClientError,
    },
    /// The version exists with other content.
    #[error("{repository}:{tag} already points to {existing}, not to {new}; choose another tag or force the move")]
    TagTaken {
        /// The repository.
        repository: String,
        /// The tag.
        tag: String,
        /// What it points to.
        existing: Digest,
        /// What was to be pushed.
        new: Digest,
    },
    /// The runtime is going away.
    #[error("the push was stopped")]
    Stopped,
}

impl PushError {
    /// A stable word for events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reference(_) | Self::Tag(_) => "InvalidReference",
            Self::Source(SourceError::Empty { .. }) => "SourceEmpty",
            Self::Source(SourceError::Secret { .. }) => "SecretInSource",
            Self::Source(SourceError::Pickle { .. }) => "PickleDenied",
            Self::Source(SourceError::Changed { .. }) => "SourceChanged",
            Self::Source(SourceError::BadModel { .. }) => "ModelDamaged",
            Self::Source(SourceError::Root { .. }) => "SourceUnreadable",
            Self::Source(_) => "SourceInvalid",
            Self::Registry { source: ClientError::Status { code: 401 | 403, .. }, .. } => "RegistryDenied",
            Self::Registry { source: ClientError::Auth(_), .. } => "CredentialsInvalid",
            Self::Registry { .. } => "RegistryFailed",
            Self::TagTaken { .. } => "TagTaken",
            Self::Stopped => "Stopped",
        }
    }
}

/// Everything known of the source before anything is sent.
struct Source {
    tree: Tree,
    facts: ModelFacts,
    metrics: Map<String, Value>,
    layers: Vec<Arc<Layer>>,
}

/// Pushes a folder. Safe to repeat: what is there already is not sent again, and an equal image keeps its digest.
pub async fn push(request: &PushRequest, progress: ProgressSink) -> Result<PushReport, PushError> {
    match Box::pin(push_once(request, &progress)).await {
        // A job may still be closing its files.
        Err(PushError::Source(SourceError::Changed { path })) => {
            tracing::info!(path, "a file changed while it was packed; packing once more");
            Box::pin(push_once(request, &progress)).await
        }
        outcome => outcome,
    }
}

async fn push_once(request: &PushRequest, progress: &ProgressSink) -> Result<PushReport, PushError> {
    let started = Instant::now();
    let repository: Repository = request.repository.parse()?;
    if !is_tag(&request.tag) {
        return Err(PushError::Tag(request.tag.chars().take(200).collect()));
    }
    let source = read_source(request).await?;
    let total = source.layers.iter().map(|layer| layer.size()).sum();
    let files = source.tree.files().count() as u64;
    progress(Progress::Planned { files, bytes: total, layers: source.layers.len() });

    let client = connect(request, &repository).map_err(registry(&repository))?;
    let known_sizes = known_sizes(&client, &request.tag).await.map_err(registry(&repository))?;
    let upload = blobs::Upload::new(&client, &source.tree, &request.mount_from, known_sizes, total);
    let digests = upload.layers(&source.layers, progress).await.map_err(registry(&repository))?;
    let documents = Documents::new(&repository, &source, &digests);
    let facts = RunFacts::new(&request.metadata, &source.metrics, &documents.image);
    let mut small = vec![&documents.image_config, &documents.model_config];
    small.extend(facts.iter().flat_map(RunFacts::blobs));
    upload.documents(&small).await.map_err(registry(&repository))?;
    publish(request, &repository, &client, &documents, facts.as_ref()).await?;

    let counts = upload.report();
    Ok(PushReport {
        image: format!("{repository}@{}", documents.image.digest),
        digest: documents.image.digest.to_string(),
        tag: request.tag.clone(),
        size_bytes: total,
        files,
        format: source.facts.format.map(str::to_owned),
        parameter_count: source.facts.parameter_count,
        pickle_files: source.facts.pickle_files,
        model_pack: Some(format!("{repository}:{}", model_pack_tag(&request.tag))),
        upload: UploadReport { seconds: started.elapsed().as_secs_f64(), ..counts },
        metrics: source.metrics,
    })
}

async fn read_source(request: &PushRequest) -> Result<Source, PushError> {
    let (path, pickle) = (request.source.clone(), request.pickle);
    let read = move || {
        let tree = Tree::walk(&path)?;
        let facts = format::examine(&tree)?;
        if let (PicklePolicy::Deny, Some(path)) = (pickle, facts.pickle_files.first()) {
            return Err(SourceError::Pickle { path: path.clone() });
        }
        let metrics = metrics::read(&tree)?;
        let layers = layers::plan(&tree.entries).into_iter().map(Arc::new).collect();
        Ok(Source { tree, facts, metrics, layers })
    };
    Ok(tokio::task::spawn_blocking(read).await.map_err(|_| PushError::Stopped)??)
}

fn connect(request: &PushRequest, repository: &Repository) -> Result<RegistryClient, ClientError> {
    let connection = Connection {
        auth: &request.auth,
        plain_http: request.plain_http,
        ca_file: request.ca_file.as_deref(),
        access: Access::Push,
        read_also: &request.mount_from,
        retry: &request.retry,
    };
    RegistryClient::connect(repository, &connection)
}

fn registry(repository: &Repository) -> impl Fn(ClientError) -> PushError {
    let repository = repository.to_string();
    move |error| match error {
        ClientError::Source(error) => match *error {
            PackError::Source(source) => PushError::Source(source),
            PackError::Stopped => PushError::Stopped,
        },
        source => PushError::Registry { repository: repository.clone(), source },
    }
}

/// Layer sizes of what the tag points to: a layer of such a size is worth hashing before it is sent.
async fn known_sizes(client: &RegistryClient, tag: &str) -> Result<Vec<u64>, ClientError> {
    let Some(manifest) = client.manifest(tag).await? else { return Ok(Vec::new()) };
    let parsed = serde_json::from_slice::<media::Manifest>(&manifest.bytes);
    Ok(parsed.map(|manifest| manifest.layers.iter().map(|layer| layer.size).collect()).unwrap_or_default())
}

fn model_pack_tag(tag: &str) -> String {
    // Long tags are shortened from the front: version tags differ at their end.
    let suffix = "-modelpack";
    let start = (tag.len() + suffix.len()).saturating_sub(128);
    format!("{}{suffix}", &tag[start..]).trim_start_matches(['.', '-']).to_owned()
}

/// Manifests by digest, then the tags; the version's own tag is last, so whoever sees it sees everything.
async fn publish(
    request: &PushRequest,
    repository: &Repository,
    client: &RegistryClient,
    documents: &Documents,
    facts: Option<&RunFacts>,
) -> Result<(), PushError> {
    let (image, model) = (&documents.image, &documents.model);
    check_tag(request, repository, client, &image.digest).await?;
    for document in [image, model] {
        let put = client.put_manifest(document.digest.as_str(), media::IMAGE_MANIFEST, &document.bytes).await;
        put.map_err(registry(repository))?;
    }
    if let Some(facts) = facts {
        facts.attach(client, &image.digest).await.map_err(registry(repository))?;
    }
    let tags = [(model_pack_tag(&request.tag), model), (request.tag.clone(), image)];
    for (tag, document) in &tags {
        let put = client.put_manifest(tag, media::IMAGE_MANIFEST, &document.bytes).await;
        put.map_err(registry(repository))?;
    }
    Ok(())
}

async fn check_tag(
    request: &PushRequest,
    repository: &Repository,
    client: &RegistryClient,
    new: &Digest,
) -> Result<(), PushError> {
    if request.force_tag {
        return Ok(());
    }
    match client.manifest(&request.tag).await.map_err(registry(repository))? {
        Some(existing) if existing.digest != *new => Err(PushError::TagTaken {
            repository: repository.to_string(),
            tag: request.tag.clone(),
            existing: existing.digest,
            new: new.clone(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_pack_tags_are_tags() {
        assert_eq!(model_pack_tag("v1"), "v1-modelpack");
        for tag in ["a".repeat(128), format!("a{}", ".".repeat(127)), format!("{}-{}", "a".repeat(8), "b".repeat(110))]
        {
            assert!(is_tag(&model_pack_tag(&tag)), "{}", model_pack_tag(&tag));
        }
    }
}
