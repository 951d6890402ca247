//! The registry's folder.
//!
//! ```text
//! blobs/<algorithm>/<hex>                              content, shared by all repositories
//! uploads/<id>, uploads/<id>.repository                running uploads
//! repositories/<name>/_blobs/<algorithm>/<hex>         empty file: this repository has the blob
//! repositories/<name>/_manifests/<algorithm>/<hex>     media type, newline, manifest
//! repositories/<name>/_tags/<tag>                      digest
//! repositories/<name>/_referrers/<subject>/<digest>    descriptor of a manifest with that subject
//! ```
//!
//! Names in a repository never start with `_`, so folders cannot collide. All functions here block.

mod blobs;
mod catalog;
mod durable;
mod manifests;
mod referrers;
mod uploads;

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::Options;
use crate::digest::{Algorithm, Digest};
use crate::name::RepositoryName;

pub(crate) use manifests::{Manifest, Reference};
pub(crate) use uploads::Session;

/// All state of a registry.
pub(crate) struct Store {
    root: PathBuf,
    pub(crate) options: Options,
    sessions: uploads::Sessions,
    /// Serialises changes of which repository has which content, so that content is removed with its last user.
    changes: Mutex<()>,
}

impl Store {
    pub(crate) fn open(root: &Path, options: Options) -> io::Result<Self> {
        let store =
            Self { root: root.to_owned(), options, sessions: uploads::Sessions::default(), changes: Mutex::new(()) };
        for algorithm in Algorithm::ALL {
            std::fs::create_dir_all(store.root.join("blobs").join(algorithm.name()))?;
        }
        std::fs::create_dir_all(store.uploads_dir())?;
        std::fs::create_dir_all(store.repositories_dir())?;
        durable::sync_dir(&store.root)?;
        store.sweep_uploads()?;
        store.sweep_blobs()?;
        Ok(store)
    }

    fn repositories_dir(&self) -> PathBuf {
        self.root.join("repositories")
    }

    fn uploads_dir(&self) -> PathBuf {
        self.root.join("uploads")
    }

    fn repository_dir(&self, name: &RepositoryName) -> PathBuf {
        self.repositories_dir().join(name.as_str())
    }

    fn content_path(&self, digest: &Digest) -> PathBuf {
        digest_path(&self.root.join("blobs"), digest)
    }

    pub(crate) fn has_repository(&self, name: &RepositoryName) -> bool {
        let dir = self.repository_dir(name);
        ["_blobs", "_manifests", "_tags"].iter().any(|part| dir.join(part).is_dir())
    }
}

fn digest_path(dir: &Path, digest: &Digest) -> PathBuf {
    dir.join(digest.algorithm().name()).join(digest.hex())
}

/// `None` for a file that is not there.
fn if_present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// File names of a folder, sorted; empty when there is no such folder. Names that are not UTF-8 are not ours.
fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = if_present(std::fs::read_dir(dir))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
