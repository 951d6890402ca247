//! The one folder that holds the platform's state, owned by at most one process at a time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Layout of the folder; a release reads its own and all older ones.
const FORMAT: u32 = 1;

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("cannot use {path} as data folder: {source}; choose a writable one with --data-dir")]
    NotWritable { path: PathBuf, source: io::Error },
    #[error(
        "{path} was written by Modelway {by} (format {found}, this release reads up to {FORMAT}); use that release, or another --data-dir"
    )]
    Newer { path: PathBuf, found: u32, by: String },
    #[error(
        "{path} says it is a data folder but {file} is unreadable: {problem}; restore it or run `modelway down --purge --data-dir {path}`"
    )]
    Damaged { path: PathBuf, file: &'static str, problem: String },
    #[error("a platform{holder} already runs on {path}; see it with `modelway status`, stop it with `modelway down`")]
    Held { path: PathBuf, holder: String },
}

/// Who wrote the folder last.
#[derive(Debug, Deserialize, Serialize)]
struct Format {
    format: u32,
    modelway: String,
}

/// An opened, locked data folder; the lock ends with the value, or with the process.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
}

impl DataDir {
    /// Creates the folder when absent, checks its format, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::NotWritable { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let mut lock = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(DataDirError::Held { path, holder: holder(&mut lock) });
        }
        lock.set_len(0).map_err(failed)?;
        lock.write_all(std::process::id().to_string().as_bytes()).map_err(failed)?;
        check_format(&path)?;
        Ok(Self { path, lock })
    }

    /// The folder, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything in the folder, and the folder itself.
    pub fn purge(self) -> io::Result<()> {
        make_removable(&self.path)?;
        fs::remove_dir_all(&self.path)?;
        drop(self.lock);
        Ok(())
    }
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(20).read_to_string(&mut text).map(|_| text.trim().parse::<u32>()) {
        Ok(Ok(pid)) => format!(" (process {pid})"),
        _ => String::new(),
    }
}

fn check_format(path: &Path) -> Result<(), DataDirError> {
    let file = path.join("format.json");
    match fs::read_to_string(&file) {
        Ok(text) => {
            let damaged = |problem: serde_json::Error| DataDirError::Damaged {
                path: path.to_owned(),
                file: "format.json",
                problem: problem.to_string(),
            };
            let format: Format = serde_json::from_str(&text).map_err(damaged)?;
            if format.format > FORMAT {
                return Err(DataDirError::Newer { path: path.to_owned(), found: format.format, by: format.modelway });
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let format = Format { format: FORMAT, modelway: env!("CARGO_PKG_VERSION").to_owned() };
            let text = serde_json::to_vec(&format).expect("two plain fields");
            write_atomically(&file, &text).map_err(|source| DataDirError::NotWritable { path: path.to_owned(), source })
        }
        Err(source) => Err(DataDirError::NotWritable { path: path.to_owned(), source }),
    }
}

/// Pulled images are read-only folders: give them back their write bit, without following links.
fn make_removable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes beside `path`, syncs, renames: readers see the old file or the new one, also after a crash.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::open(folder.path()).unwrap();
        let error = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        DataDir::open(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_of_a_newer_release_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("format.json"), r#"{"format": 99, "modelway": "9.0.0"}"#).unwrap();
        let error = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("Modelway 9.0.0") && error.contains("--data-dir"), "{error}");
    }

    #[test]
    fn an_unwritable_place_is_named_with_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DataDir::open(&file.join("data")).unwrap_err().to_string();
        assert!(error.contains("file/data") && error.contains("--data-dir"), "{error}");
    }

    #[test]
    fn purge_leaves_nothing_even_of_read_only_folders() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let data = DataDir::open(&path).unwrap();
        let inner = data.path().join("images/a");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).unwrap();
        data.purge().unwrap();
        assert!(!path.exists());
    }
}
