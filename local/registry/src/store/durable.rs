//! Files that are whole or absent, whatever is killed when.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Makes renames, creations and removals in `dir` survive a power failure.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Creates `dir` and its parents, durably.
pub(super) fn create_dir_all(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().ok_or_else(|| io::Error::other("a folder without a parent"))?;
    create_dir_all(parent)?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_dir(parent)
}

/// Writes `path` in one step: readers see the old content or the new.
pub(super) fn write(path: &Path, content: &[&[u8]]) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    create_dir_all(dir)?;
    let mut file = tempfile::Builder::new().prefix("~").tempfile_in(dir)?;
    for part in content {
        file.write_all(part)?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_dir(dir)
}

/// Moves a synced file to its final place.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let dir = to.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    create_dir_all(dir)?;
    fs::rename(from, to)?;
    sync_dir(dir)
}

/// Removes a file; says whether it was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    let Some(()) = super::if_present(fs::remove_file(path))? else { return Ok(false) };
    if let Some(dir) = path.parent() {
        sync_dir(dir)?;
    }
    Ok(true)
}

/// Temporary names that a crash may leave behind.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with('~')
}
