//! Referrers: manifests whose `subject` is another manifest, which need not exist.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::manifests::Content;
use super::{Manifest, Store, durable, if_present, names_in};
use crate::digest::Digest;
use crate::name::RepositoryName;

impl Store {
    fn referrers_dir(&self, name: &RepositoryName, subject: &Digest) -> PathBuf {
        self.repository_dir(name).join("_referrers").join(file_name(subject))
    }

    pub(super) fn add_referrer(
        &self,
        name: &RepositoryName,
        subject: &Digest,
        manifest: &Manifest,
        content: Content,
    ) -> io::Result<()> {
        let descriptor = serde_json::to_vec(&descriptor(manifest, content))?;
        durable::write(&self.referrers_dir(name, subject).join(file_name(&manifest.digest)), &[&descriptor])
    }

    pub(super) fn remove_referrer(&self, name: &RepositoryName, subject: &Digest, digest: &Digest) -> io::Result<()> {
        durable::remove(&self.referrers_dir(name, subject).join(file_name(digest))).map(drop)
    }

    /// Descriptors of all manifests with this subject, in order of their digest.
    pub(crate) fn referrers(&self, name: &RepositoryName, subject: &Digest) -> io::Result<Vec<Value>> {
        let dir = self.referrers_dir(name, subject);
        let mut descriptors = Vec::new();
        for file in names_in(&dir)?.iter().filter(|file| !durable::is_temporary(file)) {
            if let Some(bytes) = if_present(fs::read(dir.join(file)))? {
                descriptors.push(serde_json::from_slice(&bytes)?);
            }
        }
        Ok(descriptors)
    }
}

fn file_name(digest: &Digest) -> String {
    format!("{}-{}", digest.algorithm().name(), digest.hex())
}

fn descriptor(manifest: &Manifest, content: Content) -> Value {
    let mut descriptor = Map::new();
    descriptor.insert("mediaType".to_owned(), manifest.media_type.clone().into());
    descriptor.insert("digest".to_owned(), manifest.digest.to_string().into());
    descriptor.insert("size".to_owned(), manifest.bytes.len().into());
    let artifact_type = content
        .artifact_type
        .filter(|text| !text.is_empty())
        .or_else(|| content.config.map(|config| config.media_type).filter(|text| !text.is_empty()));
    if let Some(artifact_type) = artifact_type {
        descriptor.insert("artifactType".to_owned(), artifact_type.into());
    }
    if let Some(annotations) = content.annotations {
        descriptor.insert("annotations".to_owned(), annotations);
    }
    Value::Object(descriptor)
}
