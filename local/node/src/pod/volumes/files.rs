//! Folders whose files change all at once: a reader never sees half of a new content.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::jiff::Timestamp;

/// The content of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// Files by their relative path.
pub type Files = BTreeMap<String, Content>;

const CURRENT: &str = "..data";

/// Whether `path` may name a file in such a folder.
pub fn is_valid_path(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with("..")
        && !path.contains('\0')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Makes `folder` hold exactly `files`: they are written aside, then one link is swapped.
pub fn write(folder: &Path, files: &Files) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let current = folder.join(CURRENT);
    let before = std::fs::read_link(&current).ok();
    if before.is_some() && is_same(&current, files) {
        return Ok(());
    }
    let version = format!("..{}", Timestamp::now().as_nanosecond());
    for (path, content) in files {
        write_file(&folder.join(&version).join(path), content)?;
    }
    std::fs::create_dir_all(folder.join(&version))?;
    let aside = folder.join("..data_new");
    let _ = std::fs::remove_file(&aside);
    symlink(&version, &aside)?;
    std::fs::rename(&aside, &current)?;
    link_names(folder, files)?;
    match before {
        Some(before) => super::remove_tree(&folder.join(before)),
        None => Ok(()),
    }
}

fn write_file(path: &Path, content: &Content) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(content.mode).open(path)?;
    io::Write::write_all(&mut file, &content.bytes)
}

fn is_same(current: &Path, files: &Files) -> bool {
    let mut found = BTreeSet::new();
    collect(current, &PathBuf::new(), &mut found);
    found.len() == files.len()
        && files
            .iter()
            .all(|(path, content)| std::fs::read(current.join(path)).is_ok_and(|bytes| bytes == content.bytes))
}

fn collect(folder: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = below.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &path, found);
        } else {
            found.insert(path);
        }
    }
}

/// One link for each first component; links of names that are gone are removed.
fn link_names(folder: &Path, files: &Files) -> io::Result<()> {
    let wanted: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &wanted {
        let link = folder.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(CURRENT).join(name), link)?;
        }
    }
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let is_old = name.to_str().is_some_and(|name| !name.starts_with("..") && !wanted.contains(name));
        if is_old && entry.file_type()?.is_symlink() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let content = |text: &str| Content { bytes: text.as_bytes().to_vec(), mode: 0o644 };
        entries.iter().map(|(path, text)| ((*path).to_owned(), content(text))).collect()
    }

    #[test]
    fn swaps_the_whole_content_and_drops_old_names() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(&[("a", "1"), ("d/b", "2")])).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("d/b")).unwrap(), "2");
        write(folder.path(), &files(&[("a", "3"), ("c", "4")])).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "3");
        assert!(!folder.path().join("d").exists());
        let versions = std::fs::read_dir(folder.path()).unwrap().flatten();
        assert_eq!(versions.filter(|entry| entry.file_type().unwrap().is_dir()).count(), 1);
    }

    #[test]
    fn leaves_an_equal_content_alone() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files(&[("a", "1")])).unwrap();
        let before = std::fs::read_link(folder.path().join(CURRENT)).unwrap();
        write(folder.path(), &files(&[("a", "1")])).unwrap();
        assert_eq!(std::fs::read_link(folder.path().join(CURRENT)).unwrap(), before);
    }

    #[test]
    fn refuses_paths_that_leave_the_folder() {
        for path in ["", "/etc/x", "../x", "a/../../x", "..data", "a/./../b", "x\0"] {
            assert!(!is_valid_path(path), "{path:?}");
        }
        assert!(is_valid_path("a/b.c") && is_valid_path(".dockerconfigjson"));
    }
}
