//! From a reference to the layers of one image.

use crate::client::{ClientError, FetchedManifest, RegistryClient};
use crate::digest::Digest;
use crate::media::{self, Descriptor, ImageConfig, Index, Manifest};
use crate::reference::ImageReference;

use super::PullError;

const MAX_LAYERS: usize = 128;
const MAX_CONFIG: u64 = 4 << 20;

/// An image that can be loaded.
pub(super) struct Image {
    /// Digest of what was asked for (an index keeps its own).
    pub(super) digest: Digest,
    /// The image manifest, as pushed.
    pub(super) manifest: Vec<u8>,
    pub(super) layers: Vec<LayerSource>,
    pub(super) size: u64,
}

/// One layer to load.
#[derive(Debug, Clone)]
pub(super) struct LayerSource {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) gzip: bool,
    /// Digest of the uncompressed tar.
    pub(super) diff_id: Digest,
}

pub(super) async fn resolve(
    client: &std::sync::Arc<RegistryClient>,
    shown: &str,
    reference: &ImageReference,
) -> Result<Image, PullError> {
    let unusable = |why: String| PullError::Unusable { reference: shown.to_owned(), why };
    let failed = |source| PullError::Registry { reference: shown.to_owned(), source };
    let top = fetch(client, shown, reference.target()).await?;
    let digest = top.digest.clone();
    let image = match top.media_type.as_str() {
        media::IMAGE_INDEX | media::DOCKER_LIST => {
            let index: Index = serde_json::from_slice(&top.bytes).map_err(|error| unusable(error.to_string()))?;
            let chosen = choose(&index).ok_or_else(|| unusable("its index has no linux image".to_owned()))?;
            fetch(client, shown, chosen.digest.as_str()).await?
        }
        _ => top,
    };
    let manifest: Manifest = serde_json::from_slice(&image.bytes).map_err(|error| unusable(error.to_string()))?;
    check(&manifest).map_err(unusable)?;
    let config = small_blob(client, &manifest.config).await.map_err(failed)?;
    let config: ImageConfig =
        serde_json::from_slice(&config).map_err(|error| unusable(format!("bad config: {error}")))?;
    let layers = layers(&manifest, config.rootfs.diff_ids).map_err(unusable)?;
    let size = manifest.layers.iter().map(|layer| layer.size).sum();
    Ok(Image { digest, manifest: image.bytes.to_vec(), layers, size })
}

async fn fetch(client: &RegistryClient, shown: &str, target: &str) -> Result<FetchedManifest, PullError> {
    match client.manifest(target).await {
        Ok(Some(manifest)) => Ok(manifest),
        Ok(None) => Err(PullError::NotFound(shown.to_owned())),
        Err(ClientError::WrongDigest { expected, found }) => Err(PullError::Unusable {
            reference: shown.to_owned(),
            why: format!("its manifest has digest {found}, expected {expected}"),
        }),
        Err(source) => Err(PullError::Registry { reference: shown.to_owned(), source }),
    }
}

/// The image for this machine, else the first for Linux: model images hold no programs.
fn choose(index: &Index) -> Option<&Descriptor> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_linux = |one: &&Descriptor| one.platform.as_ref().is_none_or(|platform| platform.os == "linux");
    let is_ours = |one: &&Descriptor| one.platform.as_ref().is_some_and(|it| it.architecture == architecture);
    let mut linux = index.manifests.iter().filter(is_linux);
    linux.clone().find(is_ours).or_else(|| linux.next())
}

fn check(manifest: &Manifest) -> Result<(), String> {
    if manifest.config.media_type == media::MODEL_CONFIG {
        return Err(
            "it is a ModelPack manifest; use the image it was pushed with (the same tag without -modelpack)".to_owned()
        );
    }
    if manifest.layers.len() > MAX_LAYERS {
        return Err(format!("it has {} layers, at most {MAX_LAYERS} are loaded", manifest.layers.len()));
    }
    Ok(())
}

fn layers(manifest: &Manifest, diff_ids: Vec<Digest>) -> Result<Vec<LayerSource>, String> {
    if manifest.layers.len() != diff_ids.len() {
        return Err(format!("it has {} layers and {} diff ids", manifest.layers.len(), diff_ids.len()));
    }
    let pairs = manifest.layers.iter().zip(diff_ids);
    pairs
        .map(|(layer, diff_id)| {
            let gzip = match layer.media_type.as_str() {
                media::LAYER => false,
                media::LAYER_GZIP | media::DOCKER_LAYER_GZIP => true,
                other => return Err(format!("a layer has the media type {other}, which is not supported")),
            };
            Ok(LayerSource { digest: layer.digest.clone(), size: layer.size, gzip, diff_id })
        })
        .collect()
}

/// A blob that is small by its nature, checked.
pub(crate) async fn small_blob(
    client: &std::sync::Arc<RegistryClient>,
    descriptor: &Descriptor,
) -> Result<Vec<u8>, ClientError> {
    if descriptor.size > MAX_CONFIG {
        return Err(ClientError::Protocol(format!("config {} is larger than {MAX_CONFIG} bytes", descriptor.digest)));
    }
    let (sink, mut parts) = tokio::sync::mpsc::channel::<bytes::Bytes>(4);
    let collect = async {
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(part) = parts.recv().await {
            bytes.extend_from_slice(&part);
        }
        bytes
    };
    let load = client.download(&descriptor.digest, descriptor.size, sink);
    let (loaded, bytes) = futures::join!(load, collect);
    loaded?;
    let found = Digest::of(&bytes);
    if found != descriptor.digest {
        return Err(ClientError::WrongDigest { expected: descriptor.digest.to_string(), found: found.to_string() });
    }
    Ok(bytes)
}
