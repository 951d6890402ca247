//! Images as folders: pulled once, kept while in use, the least recently used removed beyond a size.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::future::BoxFuture;
use parking_lot::Mutex;

/// Something that can put an image's files into a folder.
pub trait ImageSource: Send + Sync {
    /// Makes the files of `reference` available below `cache`, checked against its digest, and returns their folder.
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        cache: &'a Path,
        plain_http: bool,
    ) -> BoxFuture<'a, Result<PathBuf, PullError>>;
}

/// Why an image could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot pull {reference}: {message}")]
pub struct PullError {
    pub reference: String,
    pub message: String,
}

/// Images from OCI registries.
#[derive(Debug, Clone, Copy, Default)]
pub struct OciSource;

impl ImageSource for OciSource {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        cache: &'a Path,
        plain_http: bool,
    ) -> BoxFuture<'a, Result<PathBuf, PullError>> {
        let mut request = modelway_oci::PullRequest::new(reference, cache);
        if plain_http {
            request.plain_http = modelway_oci::PlainHttp::Always;
        }
        Box::pin(async move {
            let pulled = modelway_oci::pull(&request, modelway_oci::no_progress()).await;
            let failed = |error: modelway_oci::PullError| PullError {
                reference: reference.to_owned(),
                message: error.to_string(),
            };
            pulled.map(|image| image.path).map_err(failed)
        })
    }
}

/// Which pods use which image folders.
#[derive(Debug, Default)]
pub struct ImagesInUse {
    users: Mutex<BTreeMap<PathBuf, Vec<String>>>,
}

impl ImagesInUse {
    /// Notes that `uid` uses `folder`. `false` when a clean-up was faster: the image must be pulled again.
    pub fn hold(&self, folder: &Path, uid: &str) -> bool {
        let mut users = self.users.lock();
        if !folder.is_dir() {
            return false;
        }
        users.entry(folder.to_owned()).or_default().push(uid.to_owned());
        // The time of last use is the folder's own; failing to note it only makes it look older.
        let cached = if folder.ends_with("rootfs") { folder.parent().unwrap_or(folder) } else { folder };
        let _ = std::fs::File::open(cached).and_then(|folder| folder.set_modified(SystemTime::now()));
        true
    }

    pub fn release(&self, uid: &str) {
        self.users.lock().retain(|_, users| {
            users.retain(|user| user != uid);
            !users.is_empty()
        });
    }

    fn is_used(&self, cached: &Path) -> bool {
        self.users.lock().keys().any(|folder| folder.starts_with(cached))
    }

    /// Takes an unused image out of the cache in one step; `None` when somebody uses it by now.
    fn take_out(&self, cached: &Path) -> io::Result<Option<PathBuf>> {
        let users = self.users.lock();
        if users.keys().any(|folder| folder.starts_with(cached)) {
            return Ok(None);
        }
        let aside = cached.with_extension(DOOMED);
        std::fs::rename(cached, &aside).map(|()| Some(aside))
    }
}

/// Ending of an image folder that is being removed.
const DOOMED: &str = "removed";

/// Images are folders named after their digest; the store keeps other things beside them.
fn is_image(name: &str) -> bool {
    let digest = name.strip_suffix(".removed").unwrap_or(name);
    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A cached image as the clean-up sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cached {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Which unused images to remove so that the rest fits into `limit`: the longest unused first.
fn excess(mut unused: Vec<Cached>, limit: u64) -> Vec<PathBuf> {
    unused.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    let mut total = 0_u64;
    unused
        .into_iter()
        .filter(|cached| {
            total = total.saturating_add(cached.bytes);
            total > limit
        })
        .map(|cached| cached.path)
        .collect()
}

/// Removes unused images below `cache` beyond `limit` bytes.
pub fn clean(cache: &Path, in_use: &ImagesInUse, limit: u64) -> io::Result<usize> {
    let entries = match std::fs::read_dir(cache) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let unused = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_image) && !in_use.is_used(&entry.path()))
        .filter_map(|entry| {
            let used = entry.metadata().and_then(|data| data.modified()).ok()?;
            Some(Cached { bytes: size(&entry.path(), 0), path: entry.path(), used })
        })
        .collect();
    let excess = excess(unused, limit);
    for path in &excess {
        if let Some(aside) = in_use.take_out(path)? {
            remove_read_only(&aside)?;
        }
    }
    Ok(excess.len())
}

/// Removes a tree whose folders may be read-only.
fn remove_read_only(path: &Path) -> io::Result<()> {
    if std::fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    make_writable(path, 0);
    std::fs::remove_dir_all(path)
}

fn make_writable(folder: &Path, depth: u32) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| depth < DEPTH_LIMIT && entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        make_writable(&entry.path(), depth + 1);
    }
}

/// Nothing is that deep honestly.
const DEPTH_LIMIT: u32 = 64;

/// Bytes below `path`; links are not followed.
fn size(path: &Path, depth: u32) -> u64 {
    if depth > DEPTH_LIMIT {
        return 0;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path(), depth + 1),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn removes_the_longest_unused_first() {
        let cached = |name: &str, age: u64| Cached {
            path: name.into(),
            bytes: 10,
            used: SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age),
        };
        let all = vec![cached("old", 100), cached("new", 1), cached("middle", 50)];
        assert_eq!(excess(all.clone(), 20), [PathBuf::from("old")]);
        assert_eq!(excess(all.clone(), 0).len(), 3);
        assert!(excess(all, 30).is_empty());
    }

    #[test]
    fn keeps_what_is_in_use() {
        let cache = tempfile::tempdir().unwrap();
        let (a, b) = (cache.path().join("a".repeat(64)), cache.path().join("b".repeat(64)));
        for image in [&a, &b] {
            std::fs::create_dir_all(image.join("rootfs/models")).unwrap();
            std::fs::write(image.join("rootfs/models/f"), "data").unwrap();
        }
        std::fs::set_permissions(b.join("rootfs/models"), std::fs::Permissions::from_mode(0o555)).unwrap();
        std::fs::create_dir(cache.path().join("locks")).unwrap();
        let in_use = ImagesInUse::default();
        assert!(in_use.hold(&a.join("rootfs"), "uid"));
        assert_eq!(clean(cache.path(), &in_use, 0).unwrap(), 1);
        assert!(a.join("rootfs/models/f").exists() && !b.exists());
        in_use.release("uid");
        assert_eq!(clean(cache.path(), &in_use, 0).unwrap(), 1);
        assert!(cache.path().join("locks").exists());
        assert!(!in_use.hold(&a.join("rootfs"), "uid"));
        assert_eq!(clean(&cache.path().join("none"), &in_use, 0).unwrap(), 0);
    }
}
