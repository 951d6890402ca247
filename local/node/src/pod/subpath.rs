//! `subPath`: a place inside a volume, never outside.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The real path of `sub_path` in the volume at `root`; a missing folder is created. Fails when the path, or a symbolic link
/// on its way, leads out of the volume.
pub fn resolve(root: &Path, sub_path: &str) -> Result<PathBuf, SubPathError> {
    let fail = |source| SubPathError::Io { sub_path: sub_path.to_owned(), source };
    if sub_path.is_empty() {
        return Ok(root.to_owned());
    }
    let plain = Path::new(sub_path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || sub_path.contains('\0') {
        return Err(SubPathError::NotInside { sub_path: sub_path.to_owned() });
    }
    let base = root.canonicalize().map_err(fail)?;
    let wanted = base.join(sub_path);
    if let Some(existing) = wanted.ancestors().find(|path| path.symlink_metadata().is_ok()) {
        check_inside(&base, existing, sub_path)?;
    }
    if !wanted.exists() {
        std::fs::create_dir_all(&wanted).map_err(fail)?;
    }
    check_inside(&base, &wanted, sub_path)?;
    // The path with its links, not their targets: ConfigMap files move when their content changes.
    Ok(wanted)
}

fn check_inside(base: &Path, path: &Path, sub_path: &str) -> Result<(), SubPathError> {
    let real = path.canonicalize().map_err(|source| SubPathError::Io { sub_path: sub_path.to_owned(), source })?;
    if real.starts_with(base) { Ok(()) } else { Err(SubPathError::NotInside { sub_path: sub_path.to_owned() }) }
}

/// Why a `subPath` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SubPathError {
    #[error(
        "subPath {sub_path:?} leads out of its volume; use a relative path without `..` and without links to the outside"
    )]
    NotInside { sub_path: String },
    #[error("cannot use subPath {sub_path:?}: {source}")]
    Io { sub_path: String, source: io::Error },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_folders_inside_and_finds_files() {
        let root = tempfile::tempdir().unwrap();
        assert!(resolve(root.path(), "a/b").unwrap().is_dir());
        std::fs::write(root.path().join("a/file"), "x").unwrap();
        assert!(resolve(root.path(), "a/file").unwrap().is_file());
        assert_eq!(resolve(root.path(), "").unwrap(), root.path());
    }

    #[test]
    fn refuses_every_way_out() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", root.path().join("dangling")).unwrap();
        for path in ["..", "a/../..", "/etc", "link", "link/new", "dangling/new", "\0"] {
            assert!(resolve(root.path(), path).is_err(), "{path:?}");
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
