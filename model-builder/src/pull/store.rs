//! The store on disk.
//!
//! ```text
//! <sha256 hex>/rootfs/...       files of a complete image
//! <sha256 hex>/manifest.json    its manifest
//! .locks/<sha256 hex>           held while an image is loaded
//! .tmp-<sha256 hex>-<random>/   an image that is being loaded, or was when its process died
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{PullError, PulledImage, image_dir};
use crate::digest::Digest;
use crate::media::Manifest;

const TEMPORARY: &str = ".tmp-";
const LOCKS: &str = ".locks";

/// A store of images.
pub(super) struct Store {
    dir: PathBuf,
}

/// The right to load one image; given back when dropped, with what was loaded so far.
pub(super) struct Claim {
    temporary: Option<tempfile::TempDir>,
    target: PathBuf,
    dir: PathBuf,
    /// Held for its lock.
    _lock: File,
}

/// Removes what processes that died have left in a store.
pub fn clean_store(store: &Path) -> Result<(), PullError> {
    Store::open(store)?.sweep()
}

impl Store {
    pub(super) fn open(dir: &Path) -> Result<Self, PullError> {
        let store = Self { dir: dir.to_owned() };
        fs::create_dir_all(dir.join(LOCKS)).map_err(|source| store.failed(source))?;
        Ok(store)
    }

    fn failed(&self, source: io::Error) -> PullError {
        PullError::Store { path: self.dir.clone(), source }
    }

    /// A complete image.
    pub(super) fn find(&self, digest: &Digest) -> Result<Option<PulledImage>, PullError> {
        let dir = image_dir(&self.dir, digest);
        let bytes = match fs::read(dir.join("manifest.json")) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed(source)),
        };
        let bad = |error: serde_json::Error| self.failed(io::Error::new(io::ErrorKind::InvalidData, error));
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(bad)?;
        Ok(Some(PulledImage {
            digest: digest.to_string(),
            path: dir.join("rootfs"),
            size_bytes: manifest.layers.iter().map(|layer| layer.size).sum(),
            manifest: serde_json::from_slice(&bytes).map_err(bad)?,
        }))
    }

    /// Takes the image's lock; `None` while somebody else loads it.
    pub(super) fn claim(&self, digest: &Digest) -> Result<Option<Claim>, PullError> {
        let Some(lock) = self.try_lock(digest.hex()).map_err(|source| self.failed(source))? else { return Ok(None) };
        let prefix = format!("{TEMPORARY}{}-", digest.hex());
        let make = || {
            self.remove_leftovers(&prefix)?;
            let temporary = tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.dir)?;
            fs::create_dir(temporary.path().join("rootfs"))?;
            Ok(temporary)
        };
        let temporary = make().map_err(|source| self.failed(source))?;
        let target = image_dir(&self.dir, digest);
        Ok(Some(Claim { temporary: Some(temporary), target, dir: self.dir.clone(), _lock: lock }))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
        let file = File::options().create(true).append(true).open(self.dir.join(LOCKS).join(name))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes temporary folders; the caller holds the lock of their image.
    fn remove_leftovers(&self, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn sweep(&self) -> Result<(), PullError> {
        let sweep = || {
            for entry in fs::read_dir(&self.dir)? {
                let name = entry?.file_name();
                let rest = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
                let Some((hex, _)) = rest.and_then(|rest| rest.split_once('-')) else { continue };
                if let Some(_lock) = self.try_lock(hex)? {
                    self.remove_leftovers(&format!("{TEMPORARY}{hex}-"))?;
                }
            }
            Ok(())
        };
        sweep().map_err(|source| self.failed(source))
    }
}

impl Claim {
    /// The folder to unpack into.
    pub(super) fn root(&self) -> Result<OwnedFd, PullError> {
        let open = || {
            let temporary = self.temporary.as_ref().ok_or_else(|| io::Error::other("already published"))?;
            File::open(temporary.path().join("rootfs"))
        };
        open().map(OwnedFd::from).map_err(|source| PullError::Store { path: self.dir.clone(), source })
    }

    /// Makes the loaded image visible, in one step that survives a power failure.
    pub(super) fn publish(mut self, manifest: &[u8]) -> Result<(), PullError> {
        let mut publish = || {
            let temporary = self.temporary.take().ok_or_else(|| io::Error::other("already published"))?;
            let path = temporary.path();
            fs::write(path.join("manifest.json"), manifest)?;
            File::open(path.join("manifest.json"))?.sync_all()?;
            sync_folders(path)?;
            // `tempdir` makes the folder private; images may be read by pods of other users.
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            if self.target.exists() {
                // Something without a manifest: half of a removal.
                fs::remove_dir_all(&self.target)?;
            }
            fs::rename(path, &self.target)?;
            // Renamed: there is nothing left to remove.
            let _ = temporary.keep();
            File::open(&self.dir)?.sync_all()
        };
        publish().map_err(|source| PullError::Store { path: self.dir.clone(), source })
    }
}

fn sync_folders(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(dir)?.sync_all()
}
