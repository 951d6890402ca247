//! Blobs: shared content and which repository has it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{Store, digest_path, durable, if_present, names_in};
use crate::digest::{Algorithm, Digest};
use crate::error::ApiError;
use crate::name::RepositoryName;

impl Store {
    fn link_path(&self, name: &RepositoryName, digest: &Digest) -> PathBuf {
        digest_path(&self.repository_dir(name).join("_blobs"), digest)
    }

    pub(crate) fn has_blob(&self, name: &RepositoryName, digest: &Digest) -> bool {
        self.link_path(name, digest).is_file() && self.content_path(digest).is_file()
    }

    /// The open blob and its size.
    pub(crate) fn open_blob(&self, name: &RepositoryName, digest: &Digest) -> Result<(File, u64), ApiError> {
        let unknown = || ApiError::BlobUnknown(digest.to_string());
        if !self.link_path(name, digest).is_file() {
            return Err(unknown());
        }
        let file = if_present(File::open(self.content_path(digest)))?.ok_or_else(unknown)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    /// Gives a finished, synced file to a repository.
    pub(super) fn adopt_blob(&self, name: &RepositoryName, digest: &Digest, file: &Path) -> io::Result<()> {
        let _changes = self.changes.lock();
        durable::rename(file, &self.content_path(digest))?;
        durable::write(&self.link_path(name, digest), &[])
    }

    /// Lets `name` have a blob that `from` (or any repository, when `None`) has. False when there is no such blob.
    pub(crate) fn mount_blob(
        &self,
        name: &RepositoryName,
        digest: &Digest,
        from: Option<&RepositoryName>,
    ) -> io::Result<bool> {
        let _changes = self.changes.lock();
        let there = match from {
            Some(from) => self.has_blob(from, digest),
            None => self.content_path(digest).is_file(),
        };
        if there {
            durable::write(&self.link_path(name, digest), &[])?;
        }
        Ok(there)
    }

    /// Takes a blob from a repository; the last one to lose it frees the space.
    pub(crate) fn delete_blob(&self, name: &RepositoryName, digest: &Digest) -> Result<(), ApiError> {
        let _changes = self.changes.lock();
        if !durable::remove(&self.link_path(name, digest))? {
            return Err(ApiError::BlobUnknown(digest.to_string()));
        }
        if !self.is_used(digest)? {
            durable::remove(&self.content_path(digest))?;
        }
        Ok(())
    }

    fn is_used(&self, digest: &Digest) -> io::Result<bool> {
        Ok(self.repositories()?.iter().any(|name| self.link_path(name, digest).is_file()))
    }

    /// Removes content that no repository has: a crash came between content and link, or between link and content.
    pub(super) fn sweep_blobs(&self) -> io::Result<()> {
        let repositories = self.repositories()?;
        for algorithm in Algorithm::ALL {
            let dir = self.root.join("blobs").join(algorithm.name());
            for hex in names_in(&dir)? {
                let digest = format!("{}:{hex}", algorithm.name()).parse::<Digest>();
                let used =
                    digest.is_ok_and(|digest| repositories.iter().any(|name| self.link_path(name, &digest).is_file()));
                if !used {
                    fs::remove_file(dir.join(hex))?;
                }
            }
        }
        Ok(())
    }
}
