//! Looking at images in a registry without unpacking them.

use std::sync::Arc;

use serde::Serialize;

use crate::client::{Access, ClientError, Connection, RegistryClient};
use crate::digest::{Digest, Hasher};
use crate::media::{self, Manifest};
use crate::pull::{PullError, PullRequest};
use crate::reference::ImageReference;

const MAX_TAGS: usize = 100_000;

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSummary {
    /// `repository@sha256:...`
    pub image: String,
    /// Digest of the manifest.
    pub digest: String,
    /// Bytes of all layers.
    pub size_bytes: u64,
    /// Whether it is the `ModelPack` manifest and not the image.
    pub model_pack: bool,
    /// The layers.
    pub layers: Vec<LayerSummary>,
}

/// One layer of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerSummary {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// The file or folder it holds, when the manifest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

fn connect(request: &PullRequest) -> Result<(ImageReference, Arc<RegistryClient>), PullError> {
    let reference: ImageReference = request.reference.parse()?;
    let connection = Connection {
        auth: &request.auth,
        plain_http: request.plain_http,
        ca_file: request.ca_file.as_deref(),
        access: Access::Pull,
        read_also: &[],
        retry: &request.retry,
    };
    let client = RegistryClient::connect(&reference.repository, &connection).map_err(failed(request))?;
    Ok((reference, Arc::new(client)))
}

fn failed(request: &PullRequest) -> impl Fn(ClientError) -> PullError {
    let reference = request.reference.clone();
    move |source| PullError::Registry { reference: reference.clone(), source }
}

async fn manifest(request: &PullRequest) -> Result<(ImageSummary, Manifest, Arc<RegistryClient>), PullError> {
    let (reference, client) = connect(request)?;
    let fetched = client.manifest(reference.target()).await.map_err(failed(request))?;
    let fetched = fetched.ok_or_else(|| PullError::NotFound(request.reference.clone()))?;
    let unusable = |error: serde_json::Error| PullError::Unusable {
        reference: request.reference.clone(),
        why: format!("it is not an image manifest: {error}"),
    };
    let manifest: Manifest = serde_json::from_slice(&fetched.bytes).map_err(unusable)?;
    let layers = manifest.layers.iter().map(|layer| LayerSummary {
        digest: layer.digest.to_string(),
        media_type: layer.media_type.clone(),
        size_bytes: layer.size,
        path: layer.annotations.get(media::MODEL_FILE_PATH).cloned(),
    });
    let summary = ImageSummary {
        image: format!("{}@{}", reference.repository, fetched.digest),
        digest: fetched.digest.to_string(),
        size_bytes: manifest.layers.iter().map(|layer| layer.size).sum(),
        model_pack: manifest.config.media_type == media::MODEL_CONFIG,
        layers: layers.collect(),
    };
    Ok((summary, manifest, client))
}

/// What the manifest behind `request.reference` says. The store of the request is not used.
pub async fn inspect(request: &PullRequest) -> Result<ImageSummary, PullError> {
    Ok(Box::pin(manifest(request)).await?.0)
}

/// All tags of the reference's repository.
pub async fn list_tags(request: &PullRequest) -> Result<Vec<String>, PullError> {
    let (_, client) = connect(request)?;
    Box::pin(client.tags(MAX_TAGS)).await.map_err(failed(request))
}

/// Reads every blob of an image from the registry and checks its digest; nothing is written.
pub async fn verify(request: &PullRequest) -> Result<ImageSummary, PullError> {
    let (summary, manifest, client) = Box::pin(manifest(request)).await?;
    for blob in manifest.layers.iter().chain([&manifest.config]) {
        let found = Box::pin(hash(Arc::clone(&client), &blob.digest, blob.size)).await.map_err(failed(request))?;
        if found != blob.digest {
            return Err(PullError::Unusable {
                reference: request.reference.clone(),
                why: format!("a blob has digest {found}, expected {}", blob.digest),
            });
        }
    }
    Ok(summary)
}

async fn hash(client: Arc<RegistryClient>, digest: &Digest, size: u64) -> Result<Digest, ClientError> {
    let (sink, mut parts) = tokio::sync::mpsc::channel::<bytes::Bytes>(4);
    let hashing = async {
        let mut hasher = Hasher::default();
        while let Some(part) = parts.recv().await {
            hasher.update(&part);
        }
        hasher.finish()
    };
    let (loaded, hashed) = futures::join!(client.download(digest, size, sink), hashing);
    loaded?;
    Ok(hashed)
}
