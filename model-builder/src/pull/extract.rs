//! Unpacking a tar that nobody vouches for: only files and folders, only beneath the destination, only within limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};

use crate::source::beneath;

/// Bytes and entries that an image may still use, over all its layers.
pub(super) struct Budget {
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes: u64, entries: u64) -> Self {
        Self { bytes: AtomicU64::new(bytes), entries: AtomicU64::new(entries) }
    }

    fn take(left: &AtomicU64, amount: u64) -> bool {
        let update = |left: u64| left.checked_sub(amount);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok()
    }
}

/// Why a layer is not unpacked.
#[derive(Debug)]
pub(super) enum Refused {
    /// An entry breaks a rule.
    Entry { entry: String, why: String },
    /// The archive cannot be read.
    Damaged(io::Error),
    /// The disk failed.
    Disk { entry: String, source: io::Error },
}

/// Unpacks all entries below `root`.
pub(super) fn extract(root: &OwnedFd, tar: &mut impl Read, budget: &Budget) -> Result<(), Refused> {
    let mut archive = Archive::new(tar);
    for entry in archive.entries().map_err(Refused::Damaged)? {
        one(root, &mut entry.map_err(Refused::Damaged)?, budget)?;
    }
    Ok(())
}

fn one(root: &OwnedFd, entry: &mut Entry<'_, impl Read>, budget: &Budget) -> Result<(), Refused> {
    let raw = entry.path_bytes().into_owned();
    let shown = String::from_utf8_lossy(&raw).chars().take(300).collect::<String>();
    let refuse = |why: &str| Refused::Entry { entry: shown.clone(), why: why.to_owned() };
    let disk = |source| Refused::Disk { entry: shown.clone(), source };
    if !Budget::take(&budget.entries, 1) {
        return Err(refuse("the image has too many files and folders"));
    }
    let path = safe_path(&raw).map_err(refuse)?;
    match entry.header().entry_type() {
        EntryType::XGlobalHeader => Ok(()),
        EntryType::Directory => folder(root, &path).map_err(disk),
        EntryType::Regular | EntryType::Continuous => {
            if path.is_empty() {
                return Err(refuse("a file without a name"));
            }
            if !Budget::take(&budget.bytes, entry.size()) {
                return Err(refuse("the image has too many bytes"));
            }
            file(root, &path, entry).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => refuse("two layers hold it"),
                _ => disk(error),
            })
        }
        EntryType::Symlink | EntryType::Link => Err(refuse("links are not unpacked")),
        _ => Err(refuse("only files and folders are unpacked")),
    }
}

/// The path without `./` and the final slash, when it cannot lead elsewhere.
fn safe_path(raw: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(raw).map_err(|_| "the name is not UTF-8")?;
    if text.starts_with('/') {
        return Err("the path is absolute");
    }
    if text.len() > 4096 || text.chars().any(char::is_control) {
        return Err("the path is too long or has control characters");
    }
    let steps: Vec<&str> = text.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    if steps.contains(&"..") {
        return Err("the path has ..");
    }
    if steps.iter().any(|step| step.starts_with(".wh.")) {
        return Err("whiteouts are not supported");
    }
    Ok(steps.join("/"))
}

/// Makes a folder and its parents. Folders stay writable for their owner so that the store can be cleaned.
fn folder(root: &OwnedFd, path: &str) -> io::Result<()> {
    let mut made = String::new();
    for step in path.split('/').filter(|step| !step.is_empty()) {
        let parent = open_folder(root, &made)?;
        match rustix::fs::mkdirat(&parent, step, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        if !made.is_empty() {
            made.push('/');
        }
        made.push_str(step);
    }
    // Fails when something else than a folder has the name.
    open_folder(root, path).map(drop)
}

fn open_folder(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return root.try_clone();
    }
    beneath::open(root, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

fn file(root: &OwnedFd, path: &str, content: &mut Entry<'_, impl Read>) -> io::Result<()> {
    let (parents, _) = path.rsplit_once('/').unwrap_or(("", path));
    folder(root, parents)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(beneath::open(root, path, flags, Mode::from_raw_mode(0o444))?);
    let expected = content.size();
    let copied = io::copy(content, &mut file)?;
    if copied != expected {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends within a file"));
    }
    file.flush()?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn tar_of(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (name, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc").unwrap();
            }
            header.set_mode(0o777);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpack(entries: &[(&str, EntryType, &[u8])], bytes: u64, count: u64) -> Result<tempfile::TempDir, Refused> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        let root = OwnedFd::from(File::open(dir.path().join("root")).unwrap());
        extract(&root, &mut tar_of(entries).as_slice(), &Budget::new(bytes, count))?;
        Ok(dir)
    }

    #[test]
    fn unpacks_files_and_folders_read_only() {
        let entries: [(&str, EntryType, &[u8]); 3] = [
            ("./models/", EntryType::Directory, b""),
            ("models/sub/a", EntryType::Regular, b"content"),
            ("models/empty/", EntryType::Directory, b""),
        ];
        let dir = unpack(&entries, 100, 10).unwrap();
        let path = dir.path().join("root/models/sub/a");
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert!(std::fs::metadata(&path).unwrap().permissions().readonly());
        assert!(dir.path().join("root/models/empty").is_dir());
    }

    #[test]
    fn refuses_everything_that_leads_elsewhere() {
        let cases: [(&str, EntryType); 8] = [
            ("/etc/passwd", EntryType::Regular),
            ("../escape", EntryType::Regular),
            ("models/../../escape", EntryType::Regular),
            ("models/link", EntryType::Symlink),
            ("models/link", EntryType::Link),
            ("models/device", EntryType::Char),
            ("models/pipe", EntryType::Fifo),
            ("models/.wh.a", EntryType::Regular),
        ];
        for (name, kind) in cases {
            assert!(matches!(unpack(&[(name, kind, b"")], 100, 10), Err(Refused::Entry { .. })), "{name} {kind:?}");
        }
    }

    #[test]
    fn keeps_to_limits_and_never_overwrites() {
        let file = |name| (name, EntryType::Regular, b"12345".as_slice());
        assert!(matches!(unpack(&[file("a"), file("b")], 9, 10), Err(Refused::Entry { .. })));
        assert!(matches!(unpack(&[file("a"), file("b")], 10, 1), Err(Refused::Entry { .. })));
        assert!(matches!(unpack(&[file("a"), file("a")], 10, 10), Err(Refused::Entry { .. })));
        assert!(unpack(&[file("a"), file("a/b")], 100, 10).is_err());
    }
}
