//! Configs and manifests of an image. They hold nothing of time, place or run: equal files give equal digests.

use bytes::Bytes;
use serde::Serialize;

use super::Source;
use crate::digest::Digest;
use crate::media::{
    self, Descriptor, ImageConfig, Manifest, ModelConfig, ModelDescriptor, ModelFacts, ModelFs, RootFs,
};
use crate::reference::Repository;

/// A JSON document and its digest.
pub(super) struct Document {
    pub(super) digest: Digest,
    pub(super) bytes: Bytes,
}

impl Document {
    pub(super) fn of(content: &impl Serialize) -> Self {
        let bytes = Bytes::from(serde_json::to_vec(content).expect("structs of strings and numbers are JSON"));
        Self { digest: Digest::of(&bytes), bytes }
    }

    pub(super) fn descriptor(&self, media_type: &str) -> Descriptor {
        Descriptor::new(media_type, self.digest.clone(), self.bytes.len() as u64)
    }
}

/// The two manifests and their configs.
pub(super) struct Documents {
    pub(super) image_config: Document,
    pub(super) model_config: Document,
    pub(super) image: Document,
    pub(super) model: Document,
}

impl Documents {
    pub(super) fn new(repository: &Repository, source: &Source, layers: &[Digest]) -> Self {
        let image_config = Document::of(&ImageConfig {
            architecture: "amd64".to_owned(),
            config: serde_json::Map::new(),
            os: "linux".to_owned(),
            rootfs: RootFs { kind: "layers".to_owned(), diff_ids: layers.to_vec() },
        });
        let model_config = Document::of(&model_config(repository, source, layers));
        let image = Document::of(&Manifest {
            schema_version: 2,
            media_type: Some(media::IMAGE_MANIFEST.to_owned()),
            artifact_type: None,
            config: image_config.descriptor(media::IMAGE_CONFIG),
            layers: descriptors(source, layers, |_| media::LAYER),
            subject: None,
        });
        let model = Document::of(&Manifest {
            schema_version: 2,
            media_type: Some(media::IMAGE_MANIFEST.to_owned()),
            artifact_type: Some(media::MODEL_MANIFEST.to_owned()),
            config: model_config.descriptor(media::MODEL_CONFIG),
            layers: annotated(source, descriptors(source, layers, |index| source.layers[index].class.media_type())),
            subject: None,
        });
        Self { image_config, model_config, image, model }
    }
}

fn model_config(repository: &Repository, source: &Source, layers: &[Digest]) -> ModelConfig {
    let name = repository.name.rsplit('/').next().unwrap_or(&repository.name);
    ModelConfig {
        descriptor: ModelDescriptor { name: name.to_owned() },
        modelfs: ModelFs { kind: "layers", diff_ids: layers.to_vec() },
        config: ModelFacts {
            format: source.facts.format.map(str::to_owned),
            param_size: source.facts.parameter_count.map(|count| count.to_string()),
        },
    }
}

/// Layers are not compressed, so the digest of a layer is also its diff id.
fn descriptors(source: &Source, layers: &[Digest], media_type: impl Fn(usize) -> &'static str) -> Vec<Descriptor> {
    let pairs = source.layers.iter().zip(layers).enumerate();
    pairs.map(|(index, (layer, digest))| Descriptor::new(media_type(index), digest.clone(), layer.size())).collect()
}

fn annotated(source: &Source, mut descriptors: Vec<Descriptor>) -> Vec<Descriptor> {
    for (descriptor, layer) in descriptors.iter_mut().zip(&source.layers) {
        descriptor.annotations.extend([layer.annotations()]);
    }
    descriptors
}
