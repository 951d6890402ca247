//! Manifests and tags of a repository.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::{Store, digest_path, durable, if_present, names_in};
use crate::digest::Digest;
use crate::error::ApiError;
use crate::name::{RepositoryName, Tag};

/// How a manifest is named.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    Tag(Tag),
    Digest(Digest),
}

impl Reference {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        if text.contains(':') {
            return text.parse().map(Self::Digest).map_err(|()| ApiError::DigestInvalid(text.to_owned()));
        }
        Tag::parse(text).map(Self::Tag).ok_or_else(|| ApiError::TagInvalid(text.to_owned()))
    }
}

/// A manifest as it was pushed.
pub(crate) struct Manifest {
    pub(crate) digest: Digest,
    pub(crate) media_type: String,
    pub(crate) bytes: Vec<u8>,
}

/// What a stored manifest means to others.
pub(crate) struct Stored {
    pub(crate) subject: Option<Digest>,
}

/// The fields of manifests and indexes that a registry looks at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    pub(super) media_type: Option<String>,
    pub(super) artifact_type: Option<String>,
    pub(super) config: Option<Part>,
    #[serde(default)]
    layers: Vec<Part>,
    #[serde(default)]
    manifests: Vec<Part>,
    subject: Option<Part>,
    pub(super) annotations: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    #[serde(default)]
    pub(super) media_type: String,
    digest: String,
    #[serde(default)]
    urls: Vec<String>,
}

impl Part {
    fn digest(&self) -> Result<Digest, ApiError> {
        self.digest.parse().map_err(|()| ApiError::ManifestInvalid(format!("{} is not a digest", self.digest)))
    }

    /// Foreign layers live elsewhere and need not be here.
    fn is_foreign(&self) -> bool {
        !self.urls.is_empty() || self.media_type.contains("nondistributable") || self.media_type.contains(".foreign.")
    }
}

impl Store {
    fn manifest_path(&self, name: &RepositoryName, digest: &Digest) -> PathBuf {
        digest_path(&self.repository_dir(name).join("_manifests"), digest)
    }

    fn tag_path(&self, name: &RepositoryName, tag: &Tag) -> PathBuf {
        self.repository_dir(name).join("_tags").join(tag.as_str())
    }

    /// Stores a manifest, then its place among the referrers, then its tags: each step leaves a consistent state.
    pub(crate) fn put_manifest(
        &self,
        name: &RepositoryName,
        manifest: &Manifest,
        tags: &[Tag],
    ) -> Result<Stored, ApiError> {
        if manifest.media_type.contains(['\n', '\r']) {
            return Err(ApiError::ManifestInvalid("media type with a line break".to_owned()));
        }
        let content: Content =
            serde_json::from_slice(&manifest.bytes).map_err(|error| ApiError::ManifestInvalid(error.to_string()))?;
        if content.media_type.as_ref().is_some_and(|inner| *inner != manifest.media_type) {
            return Err(ApiError::ManifestInvalid(format!("its mediaType is not {}", manifest.media_type)));
        }
        let subject = content.subject.as_ref().map(Part::digest).transpose()?;
        let _changes = self.changes.lock();
        self.check_content(name, &content)?;
        let path = self.manifest_path(name, &manifest.digest);
        durable::write(&path, &[manifest.media_type.as_bytes(), b"\n", &manifest.bytes])?;
        if let Some(subject) = &subject {
            self.add_referrer(name, subject, manifest, content)?;
        }
        for tag in tags {
            durable::write(&self.tag_path(name, tag), &[manifest.digest.to_string().as_bytes()])?;
        }
        Ok(Stored { subject })
    }

    fn check_content(&self, name: &RepositoryName, content: &Content) -> Result<(), ApiError> {
        for part in content.config.iter().chain(&content.layers) {
            let digest = part.digest()?;
            if self.options.require_content && !part.is_foreign() && !self.has_blob(name, &digest) {
                return Err(ApiError::ManifestBlobUnknown(digest.to_string()));
            }
        }
        for part in &content.manifests {
            let digest = part.digest()?;
            if self.options.require_content && !self.manifest_path(name, &digest).is_file() {
                return Err(ApiError::ManifestBlobUnknown(digest.to_string()));
            }
        }
        Ok(())
    }

    /// The digest that a reference names now.
    fn resolve(&self, name: &RepositoryName, reference: &Reference) -> Result<Digest, ApiError> {
        match reference {
            Reference::Digest(digest) => Ok(digest.clone()),
            Reference::Tag(tag) => {
                let text = if_present(fs::read_to_string(self.tag_path(name, tag)))?;
                text.and_then(|text| text.parse().ok())
                    .ok_or_else(|| ApiError::ManifestUnknown(tag.as_str().to_owned()))
            }
        }
    }

    pub(crate) fn manifest(&self, name: &RepositoryName, reference: &Reference) -> Result<Manifest, ApiError> {
        let digest = self.resolve(name, reference)?;
        let unknown = || ApiError::ManifestUnknown(digest.to_string());
        let mut bytes = if_present(fs::read(self.manifest_path(name, &digest)))?.ok_or_else(unknown)?;
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(unknown)?;
        let rest = bytes.split_off(end + 1);
        bytes.truncate(end);
        let media_type = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(Manifest { digest, media_type, bytes: rest })
    }

    /// Removes a tag, or a manifest with its tags and its place among the referrers.
    pub(crate) fn delete_manifest(&self, name: &RepositoryName, reference: &Reference) -> Result<(), ApiError> {
        let _changes = self.changes.lock();
        match reference {
            Reference::Tag(tag) => {
                let removed = durable::remove(&self.tag_path(name, tag))?;
                removed.then_some(()).ok_or_else(|| ApiError::ManifestUnknown(tag.as_str().to_owned()))
            }
            Reference::Digest(digest) => self.delete_digest(name, reference, digest),
        }
    }

    fn delete_digest(&self, name: &RepositoryName, reference: &Reference, digest: &Digest) -> Result<(), ApiError> {
        let manifest = self.manifest(name, reference)?;
        for tag in self.tags(name)?.iter().filter_map(|tag| Tag::parse(tag)) {
            if self.resolve(name, &Reference::Tag(tag.clone())).is_ok_and(|target| target == *digest) {
                durable::remove(&self.tag_path(name, &tag))?;
            }
        }
        let subject = serde_json::from_slice::<Content>(&manifest.bytes).ok().and_then(|content| content.subject);
        if let Some(subject) = subject.and_then(|part| part.digest().ok()) {
            self.remove_referrer(name, &subject, digest)?;
        }
        durable::remove(&self.manifest_path(name, digest))?;
        Ok(())
    }

    /// All tags, sorted.
    pub(crate) fn tags(&self, name: &RepositoryName) -> io::Result<Vec<String>> {
        let mut names = names_in(&self.repository_dir(name).join("_tags"))?;
        names.retain(|name| !durable::is_temporary(name));
        Ok(names)
    }
}
