//! Manifests and configs, as far as model images need them. Field order is the order on the wire: it is part of digests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub(crate) const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
pub(crate) const MODEL_CONFIG: &str = "application/vnd.cncf.model.config.v1+json";
pub(crate) const MODEL_MANIFEST: &str = "application/vnd.cncf.model.manifest.v1+json";
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Facts about the run that made an image.
pub(crate) const RUN: &str = "application/vnd.modelway.run.v1+json";
pub(crate) const MODEL_FILE_PATH: &str = "org.cncf.model.filepath";

/// Points to content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self { media_type: media_type.to_owned(), digest, size, annotations: BTreeMap::new(), platform: None }
    }
}

/// What a manifest of an index runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
}

/// An image (or artifact) manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
}

/// An index: manifests for several platforms.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Index {
    pub(crate) manifests: Vec<Descriptor>,
}

/// The config of an image that only carries files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImageConfig {
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) config: serde_json::Map<String, serde_json::Value>,
    pub(crate) os: String,
    pub(crate) rootfs: RootFs,
}

/// Digests of uncompressed layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) diff_ids: Vec<Digest>,
}

/// The `ModelPack` config.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ModelConfig {
    pub(crate) descriptor: ModelDescriptor,
    pub(crate) modelfs: ModelFs,
    pub(crate) config: ModelFacts,
}

/// The `ModelPack` name of a model: no times, no authors, so that equal weights keep an equal digest.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ModelDescriptor {
    pub(crate) name: String,
}

/// The `ModelPack` list of layers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelFs {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) diff_ids: Vec<Digest>,
}

/// What `ModelPack` wants to know of the weights.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) param_size: Option<String>,
}
