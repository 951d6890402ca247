//! Facts about the run that made an image: a manifest that refers to the image, so the image itself stays the same for
//! equal weights.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::documents::Document;
use crate::client::{ClientError, RegistryClient};
use crate::digest::Digest;
use crate::media::{self, Manifest};

/// Fallback lists longer than this are not extended.
const MAX_REFERRERS: usize = 1000;

/// The document, and the manifest that ties it to the image.
pub(super) struct RunFacts {
    config: Document,
    document: Document,
    manifest: Document,
}

impl RunFacts {
    /// `None` when there is nothing to say.
    pub(super) fn new(metadata: &Value, metrics: &Map<String, Value>, image: &Document) -> Option<Self> {
        if metadata.is_null() && metrics.is_empty() {
            return None;
        }
        let config = Document::of(&Map::new());
        let document = Document::of(&json!({"metadata": metadata, "metrics": metrics}));
        let manifest = Document::of(&Manifest {
            schema_version: 2,
            media_type: Some(media::IMAGE_MANIFEST.to_owned()),
            artifact_type: Some(media::RUN.to_owned()),
            config: config.descriptor(media::EMPTY),
            layers: vec![document.descriptor(media::RUN)],
            subject: Some(image.descriptor(media::IMAGE_MANIFEST)),
        });
        Some(Self { config, document, manifest })
    }

    pub(super) fn blobs(&self) -> [&Document; 2] {
        [&self.config, &self.document]
    }

    /// Stores the manifest; registries without a list of referrers get the list under the specification's fallback tag.
    pub(super) async fn attach(&self, client: &RegistryClient, image: &Digest) -> Result<(), ClientError> {
        let (digest, bytes) = (self.manifest.digest.as_str(), &self.manifest.bytes);
        if client.put_manifest(digest, media::IMAGE_MANIFEST, bytes).await? {
            return Ok(());
        }
        let tag = format!("sha256-{}", image.hex());
        let existing = client.manifest(&tag).await?.map(|manifest| manifest.bytes);
        let Some(index) = self.extended(existing.as_ref()) else { return Ok(()) };
        client.put_manifest(&tag, media::IMAGE_INDEX, &index).await.map(drop)
    }

    /// The fallback list with this manifest; `None` when it is in it, or there is no room.
    fn extended(&self, existing: Option<&Bytes>) -> Option<Bytes> {
        let parsed = existing.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let listed = parsed.as_ref().and_then(|index| index.get("manifests")?.as_array().cloned());
        let mut manifests = listed.unwrap_or_default();
        let digest = self.manifest.digest.as_str();
        let known = manifests.iter().any(|one| one.get("digest").and_then(Value::as_str) == Some(digest));
        if known || manifests.len() >= MAX_REFERRERS {
            return None;
        }
        manifests.push(json!({
            "mediaType": media::IMAGE_MANIFEST,
            "digest": digest,
            "size": self.manifest.bytes.len(),
            "artifactType": media::RUN,
        }));
        let index = json!({"schemaVersion": 2, "mediaType": media::IMAGE_INDEX, "manifests": manifests});
        Some(Bytes::from(index.to_string()))
    }
}
