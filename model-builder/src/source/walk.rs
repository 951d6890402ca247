//! The walk: every entry is named from the open folder it is in, so nothing can be swapped for a link on the way.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::{SourceError, beneath, names, secrets};

const MAX_DEPTH: usize = 64;
const MAX_ENTRIES: usize = 100_000;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("no longer a regular file"));
        }
        Ok(Self::from_stat(&stat))
    }

    #[cfg(test)]
    pub(crate) fn for_test(size: u64) -> Self {
        Self { device: 0, inode: 0, size, modified: (0, 0), changed: (0, 0) }
    }

    // The widths and signs of these fields differ between architectures.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "depends on the target")]
    fn from_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (i64::from(stat.st_mtime), i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed: (i64::from(stat.st_ctime), i64::try_from(stat.st_ctime_nsec).unwrap_or(0)),
        }
    }
}

/// One entry of the training output.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Relative path with `/`, no leading or trailing slash.
    pub(crate) path: String,
    /// `None` for a folder.
    pub(crate) file: Option<FileStamp>,
}

impl Entry {
    pub(crate) fn size(&self) -> u64 {
        self.file.map_or(0, |stamp| stamp.size)
    }
}

/// A walked training output.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) root: Arc<OwnedFd>,
    /// In bytewise order of the path, where a folder's path counts with its final slash.
    pub(crate) entries: Vec<Entry>,
}

impl Tree {
    pub(crate) fn walk(path: &Path) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| SourceError::Root { path: shown.clone(), source: errno.into() })?;
        let mut walk = Walk::default();
        walk.folder(root.as_fd(), "", 0)?;
        let mut entries = walk.entries;
        entries.sort_by(|one, other| order(one).cmp(order(other)));
        if !entries.iter().any(|entry| entry.file.is_some()) {
            return Err(SourceError::Empty { path: shown });
        }
        Ok(Self { root: Arc::new(root), entries })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&Entry, FileStamp)> {
        self.entries.iter().filter_map(|entry| Some((entry, entry.file?)))
    }

    /// Opens a file that the walk saw; fails when it is another one now.
    pub(crate) fn open(&self, path: &str, stamp: FileStamp) -> Result<std::fs::File, SourceError> {
        open_file(&self.root, path, stamp)
    }
}

/// Opens a file of the tree and checks that it is still what the walk saw.
pub(crate) fn open_file(root: impl AsFd, path: &str, stamp: FileStamp) -> Result<std::fs::File, SourceError> {
    let opened = beneath::open(root, path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let changed = || SourceError::Changed { path: path.to_owned() };
    let file = std::fs::File::from(opened.map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => SourceError::Read { path: path.to_owned(), source },
        _ => changed(),
    })?);
    if FileStamp::of(&file).map_err(|_| changed())? == stamp { Ok(file) } else { Err(changed()) }
}

fn order(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
    let slash = entry.file.is_none().then_some(b'/');
    entry.path.bytes().chain(slash)
}

#[derive(Default)]
struct Walk {
    entries: Vec<Entry>,
    /// Lower-case paths, to find names that some file systems cannot tell apart.
    folded: HashMap<String, String>,
}

impl Walk {
    fn folder(&mut self, folder: impl AsFd, path: &str, depth: usize) -> Result<(), SourceError> {
        let read = |errno: rustix::io::Errno| SourceError::Read { path: path.to_owned(), source: errno.into() };
        if depth > MAX_DEPTH {
            return Err(SourceError::TooMuch { why: format!("{path} is more than {MAX_DEPTH} folders deep") });
        }
        for item in Dir::read_from(folder.as_fd()).map_err(read)? {
            let item = item.map_err(read)?;
            let raw = item.file_name().to_bytes();
            if raw != b"." && raw != b".." {
                self.entry(folder.as_fd(), path, raw, depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, folder: impl AsFd, parent: &str, raw: &[u8], depth: usize) -> Result<(), SourceError> {
        let name = std::str::from_utf8(raw).map_err(|_| SourceError::BadName {
            path: join(parent, &String::from_utf8_lossy(raw)),
            why: "the name is not UTF-8",
        })?;
        let path = join(parent, name);
        self.check(name, &path)?;
        let read = |errno: rustix::io::Errno| SourceError::Read { path: path.clone(), source: errno.into() };
        let stat = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(read)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return self.file(folder, name, path, FileStamp::from_stat(&stat)),
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty()).map_err(read)?;
                self.entries.push(Entry { path: path.clone(), file: None });
                return self.folder(inner, &path, depth + 1);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder.as_fd(), name, Vec::new()).map_err(read)?;
                return Err(SourceError::Symlink { path, target: target.to_string_lossy().into_owned() });
            }
            FileType::Fifo => "named pipe",
            FileType::Socket => "socket",
            FileType::CharacterDevice | FileType::BlockDevice => "device",
            FileType::Unknown => "special file",
        };
        Err(SourceError::NotAFile { path, kind })
    }

    fn check(&mut self, name: &str, path: &str) -> Result<(), SourceError> {
        if let Some(why) = names::broken_rule(name).or_else(|| names::broken_path_rule(path)) {
            return Err(SourceError::BadName { path: path.to_owned(), why });
        }
        if let Some(rule) = names::secret_rule(name) {
            return Err(SourceError::Secret { path: path.to_owned(), rule });
        }
        if self.folded.insert(path.to_lowercase(), path.to_owned()).is_some() {
            let why = "another name differs only in upper and lower case";
            return Err(SourceError::BadName { path: path.to_owned(), why });
        }
        if self.folded.len() > MAX_ENTRIES {
            return Err(SourceError::TooMuch { why: format!("more than {MAX_ENTRIES} files and folders") });
        }
        Ok(())
    }

    fn file(&mut self, folder: impl AsFd, name: &str, path: String, stamp: FileStamp) -> Result<(), SourceError> {
        if stamp.size <= secrets::MAX_SEARCHED {
            let file = open_file(folder, name, stamp).map_err(|error| renamed(error, &path))?;
            if let Some(rule) = search(&file, &path)? {
                return Err(SourceError::Secret { path, rule });
            }
        }
        self.entries.push(Entry { path, file: Some(stamp) });
        Ok(())
    }
}

/// The same error with the path from the root.
fn renamed(error: SourceError, path: &str) -> SourceError {
    match error {
        SourceError::Changed { .. } => SourceError::Changed { path: path.to_owned() },
        SourceError::Read { source, .. } => SourceError::Read { path: path.to_owned(), source },
        other => other,
    }
}

fn search(file: &std::fs::File, path: &str) -> Result<Option<&'static str>, SourceError> {
    let mut content = Vec::new();
    let read = |source| SourceError::Read { path: path.to_owned(), source };
    file.take(secrets::MAX_SEARCHED).read_to_end(&mut content).map_err(read)?;
    Ok(secrets::find(&content))
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}
