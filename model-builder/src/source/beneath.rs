//! Opening files beneath a folder without ever following a link.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens `path`, relative to `root`, with no link on the way.
pub(crate) fn open(root: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root.as_fd(), path, flags, mode, resolve) {
        // Old kernels, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, path, flags, mode),
        other => Ok(other?),
    }
}

/// The same by single steps, each of which refuses links.
fn step_by_step(root: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut folder: Option<OwnedFd> = None;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for step in parents.split('/').filter(|step| !step.is_empty()) {
        check_step(step)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let next = match &folder {
            Some(folder) => rustix::fs::openat(folder, step, flags, Mode::empty())?,
            None => rustix::fs::openat(root.as_fd(), step, flags, Mode::empty())?,
        };
        folder = Some(next);
    }
    check_step(name)?;
    let opened = match &folder {
        Some(folder) => rustix::fs::openat(folder, name, flags, mode)?,
        None => rustix::fs::openat(root.as_fd(), name, flags, mode)?,
    };
    Ok(opened)
}

fn check_step(step: &str) -> io::Result<()> {
    if matches!(step, "" | "." | "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with . or .."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn never_follows_links_or_leaves_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in/sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        std::fs::write(dir.path().join("in/sub/file"), "x").unwrap();
        symlink("../secret", dir.path().join("in/link")).unwrap();
        symlink("sub", dir.path().join("in/folder")).unwrap();
        let root = std::fs::File::open(dir.path().join("in")).unwrap();
        let by_call = |path: &str| open(&root, path, OFlags::RDONLY, Mode::empty()).is_ok();
        let by_step = |path: &str| step_by_step(&root, path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()).is_ok();
        assert!(by_call("sub/file") && by_step("sub/file"));
        for bad in ["link", "folder/file", "../secret", "sub/../../secret", "/etc/passwd", "nothing"] {
            assert!(!by_call(bad), "{bad}");
            assert!(!by_step(bad) || bad.starts_with('/'), "{bad}");
        }
    }
}
