//! Which control groups belong to a data folder, so that a later life, or `down`, finds and removes them.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::detect::candidates;
use super::group::{processes, remove_tree};
use super::own::OwnGroups;
use crate::proc;
use crate::shim::{kill_until_none, pause};

/// File in the data folder: one path a line.
const FILE: &str = "cgroups";
const PREFIX: &str = "modelway-";
/// End of the name of a group that holds a platform itself.
const LEAF: &str = "-platform";
/// Enough for any honest number of processes.
const LIMIT: Duration = Duration::from_secs(10);
/// A killed process leaves its group a moment after it is gone from the list.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Name of the group above all pods of a data folder; its path is its identity, as for the mark of its processes.
pub fn base_name(data_dir: &Path) -> io::Result<String> {
    let path = data_dir.canonicalize()?;
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    Ok(format!("{PREFIX}{}", hex::encode(&hash[..8])))
}

/// Name of the group that the platform moves into where its own must be free of processes.
pub fn leaf(name: &str) -> String {
    format!("{name}{LEAF}")
}

/// Whether a platform made the group with this name for itself.
pub fn is_leaf(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(LEAF)
}

/// Notes the groups before they are made: a kill at any point leaves none that nobody knows of.
pub fn write(data_dir: &Path, groups: &[PathBuf]) -> io::Result<()> {
    let mut all = read(data_dir);
    all.extend(groups.iter().cloned());
    all.sort();
    all.dedup();
    let lines: Vec<String> = all.iter().map(|path| format!("{}\n", path.display())).collect();
    let (path, beside) = (data_dir.join(FILE), data_dir.join(format!("{FILE}.new")));
    std::fs::write(&beside, lines.concat())?;
    std::fs::rename(beside, path)
}

fn read(data_dir: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(data_dir.join(FILE)).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

/// Removes every control group that a platform on `data_dir` made, with the processes in it; returns how many those were.
///
/// Call it only while holding the data folder. A group that cannot be removed stays on record for the next time.
pub fn sweep(data_dir: &Path) -> io::Result<usize> {
    let name = base_name(data_dir)?;
    let mut known = candidates(&OwnGroups::read(), &name);
    known.extend(read(data_dir));
    known.sort();
    known.dedup();
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let spared = proc::ancestry(own);
    let (mut killed, mut left) = (0, false);
    for path in known.iter().filter(|path| path.is_absolute() && path.exists()) {
        // The record may have been tampered with: only what carries our name is ours.
        let removed = match path.file_name().and_then(|name| name.to_str()) {
            Some(found) if found == name => {
                killed += empty(path, &spared)?;
                remove(path)
            }
            // The platform itself may be in it.
            Some(found) if found == leaf(&name) => std::fs::remove_dir(path),
            _ => Ok(()),
        };
        if let Err(error) = removed {
            left = true;
            tracing::debug!(%error, group = %path.display(), "a control group could not be removed");
        }
    }
    if !left {
        let _ = std::fs::remove_file(data_dir.join(FILE));
    }
    Ok(killed)
}

fn empty(group: &Path, spared: &HashSet<i32>) -> io::Result<usize> {
    let scan = || processes(group).into_iter().filter(|pid| *pid > 0 && !spared.contains(pid)).collect::<Vec<_>>();
    let found = scan().len();
    if found == 0 || kill_until_none(LIMIT, scan) {
        return Ok(found);
    }
    let message = format!("processes in control group {} keep starting; kill their parent", group.display());
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

fn remove(group: &Path) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match remove_tree(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => pause(PAUSE),
            done => return done,
        }
    }
    remove_tree(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_is_on_record_under_its_own_name_only() {
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = base_name(data.path()).unwrap();
        let (ours, leaf) = (root.path().join(&name), root.path().join(leaf(&name)));
        let other = root.path().join("modelway-0000000000000000");
        for folder in [&ours.join("pod-u/a"), &leaf, &other] {
            std::fs::create_dir_all(folder).unwrap();
        }
        write(data.path(), &[ours.clone(), leaf.clone()]).unwrap();
        write(data.path(), &[other.clone(), "relative".into()]).unwrap();
        assert_eq!(sweep(data.path()).unwrap(), 0);
        assert!(!ours.exists() && !leaf.exists() && other.exists());
        assert!(read(data.path()).is_empty());
    }

    #[test]
    fn what_could_not_be_removed_stays_on_record() {
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ours = root.path().join(base_name(data.path()).unwrap());
        std::fs::create_dir(&ours).unwrap();
        std::fs::write(ours.join("file"), "").unwrap();
        write(data.path(), std::slice::from_ref(&ours)).unwrap();
        assert_eq!(sweep(data.path()).unwrap(), 0);
        assert_eq!(read(data.path()), [ours]);
    }

    #[test]
    fn each_data_folder_has_a_name_of_its_own() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(base_name(one.path()).unwrap(), base_name(&one.path().join(".")).unwrap());
        assert_ne!(base_name(one.path()).unwrap(), base_name(other.path()).unwrap());
        assert!(is_leaf(&leaf(&base_name(one.path()).unwrap())) && !is_leaf("platform"));
    }
}
