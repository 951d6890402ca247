//! The control groups that the node makes: one for all its pods, one for each pod, one for each container.

use std::io;
use std::path::{Path, PathBuf};

use super::files::{Controller, Setting, Version, limit_file, settings, weight};
use super::resources::Resources;

/// Deeper trees are nobody's honest work.
const DEPTH: u32 = 32;
const PROCESSES: &str = "cgroup.procs";
const SUBTREE: &str = "cgroup.subtree_control";

/// Why a control group cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("cannot make control group {}: {source}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot write {value:?} to {}: {source}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("{} does not exist, so this kernel does not enforce the limit", path.display())]
    Missing { path: PathBuf },
    #[error("{} offers neither cpu nor memory", path.display())]
    NoController { path: PathBuf },
    #[error("other processes share control group {}: start the platform in one of its own, for example by \
             `systemd-run --user --scope -p Delegate=yes`", path.display())]
    NotAlone { path: PathBuf },
    #[error("{0:?} cannot be the name of a control group")]
    Name(String),
    #[error("cannot start a process to try control group {}: {source}", path.display())]
    Trial { path: PathBuf, source: io::Error },
}

/// The groups of one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// The group above all pods.
    pub base: PathBuf,
    pub controllers: Vec<Controller>,
}

impl Hierarchy {
    /// Makes the group above all pods, and tries it by `trial`, which moves a process into the folder that it is given.
    pub fn make(
        version: Version,
        base: PathBuf,
        controllers: Vec<Controller>,
        cores: u64,
        trial: impl FnOnce(&Path) -> Result<(), GroupError>,
    ) -> Result<Self, GroupError> {
        let made = Self { version, base, controllers };
        let done = made.lay_out(cores).and_then(|probe| trial(&probe));
        let _ = std::fs::remove_dir(made.base.join("probe"));
        if done.is_err() {
            let _ = remove_tree(&made.base);
        }
        done.map(|()| made)
    }

    fn lay_out(&self, cores: u64) -> Result<PathBuf, GroupError> {
        self.make_group(&self.base)?;
        if self.has(Controller::Cpu) {
            write(&self.base, &weight(self.version, cores.saturating_mul(1000)))?;
        }
        let probe = self.base.join("probe");
        make_folder(&probe)?;
        for controller in &self.controllers {
            let path = probe.join(limit_file(self.version, *controller));
            if !path.exists() {
                return Err(GroupError::Missing { path });
            }
        }
        Ok(probe)
    }

    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Makes the group of a container and those above it, and sets their limits. Returns its folder.
    pub fn place(
        &self,
        uid: &str,
        of_pod: &Resources,
        container: &str,
        resources: &Resources,
    ) -> Result<PathBuf, GroupError> {
        let (pod, container) = (self.pod(uid)?, checked(container)?);
        self.make_group(&pod)?;
        self.set(&pod, of_pod)?;
        let folder = pod.join(container);
        make_folder(&folder)?;
        self.set(&folder, resources)?;
        Ok(folder)
    }

    fn pod(&self, uid: &str) -> Result<PathBuf, GroupError> {
        Ok(self.base.join(format!("pod-{}", checked(uid)?)))
    }

    /// A group that has groups below it.
    fn make_group(&self, folder: &Path) -> Result<(), GroupError> {
        make_folder(folder)?;
        match self.version {
            Version::V1 => Ok(()),
            Version::V2 => enable(folder, &self.controllers),
        }
    }

    fn set(&self, folder: &Path, resources: &Resources) -> Result<(), GroupError> {
        let all = self.controllers.iter().flat_map(|controller| settings(self.version, *controller, resources));
        for setting in all {
            write(folder, &setting)?;
        }
        Ok(())
    }

    /// Removes the groups of a pod whose processes are gone.
    pub fn remove_pod(&self, uid: &str) -> io::Result<()> {
        self.pod(uid).map_or(Ok(()), |folder| remove_tree(&folder))
    }
}

/// The file through which processes join the group in `folder`.
pub fn processes_file(folder: &Path) -> PathBuf {
    folder.join(PROCESSES)
}

/// Lets the groups below `folder` limit what `controllers` count.
pub fn enable(folder: &Path, controllers: &[Controller]) -> Result<(), GroupError> {
    let enabled = std::fs::read_to_string(folder.join(SUBTREE)).unwrap_or_default();
    let is_enabled = |controller: &Controller| enabled.split_ascii_whitespace().any(|name| name == controller.name());
    let missing: Vec<String> = controllers
        .iter()
        .filter(|controller| !is_enabled(controller))
        .map(|controller| format!("+{}", controller.name()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    write(folder, &Setting { file: SUBTREE, value: missing.join(" "), optional: false })
}

/// Moves the process `pid` into the group in `folder`.
pub fn join(folder: &Path, pid: u32) -> Result<(), GroupError> {
    write(folder, &Setting { file: PROCESSES, value: pid.to_string(), optional: false })
}

pub fn make_folder(path: &Path) -> Result<(), GroupError> {
    match std::fs::create_dir(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(GroupError::Make { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn write(folder: &Path, setting: &Setting) -> Result<(), GroupError> {
    let path = folder.join(setting.file);
    match std::fs::write(&path, &setting.value) {
        Err(source) if !setting.optional => Err(GroupError::Write { path, value: setting.value.clone(), source }),
        _ => Ok(()),
    }
}

/// Names come from API objects: nothing that could lead elsewhere, or meet a file of the kernel, which all have a dot.
fn checked(name: &str) -> Result<&str, GroupError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 200 || !name.chars().all(plain) {
        return Err(GroupError::Name(name.to_owned()));
    }
    Ok(name)
}

/// Removes a group and those below it; fails while one of them has a process. Files are the kernel's and stay out of it:
/// outside a control group file system, this removes empty folders only.
pub fn remove_tree(folder: &Path) -> io::Result<()> {
    remove_below(folder, DEPTH)
}

fn remove_below(folder: &Path, depth: u32) -> io::Result<()> {
    if depth > 0 {
        for below in folders(folder) {
            remove_below(&below, depth - 1)?;
        }
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// The processes of a group and of those below it; 0 stands for one that cannot be seen from here.
pub fn processes(folder: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    collect(folder, DEPTH, &mut found);
    found
}

/// The processes of the groups that are joined through these files.
pub fn members(files: &[PathBuf]) -> Vec<i32> {
    files.iter().filter_map(|file| file.parent()).flat_map(processes).collect()
}

fn collect(folder: &Path, depth: u32, found: &mut Vec<i32>) {
    let listed = std::fs::read_to_string(processes_file(folder)).unwrap_or_default();
    found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
    if depth > 0 {
        for below in folders(folder) {
            collect(&below, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::resources::Limit;

    fn hierarchy(base: PathBuf) -> Hierarchy {
        Hierarchy { version: Version::V2, base, controllers: Controller::ALL.to_vec() }
    }

    #[test]
    fn a_container_gets_a_group_below_its_pod() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = hierarchy(folder.path().to_owned());
        let limit = Limit { declared: "200m".to_owned(), value: 200 };
        let resources = Resources { cpu: Some(limit), ..Resources::default() };
        let of_pod = Resources { cpu_request: 1000, ..Resources::default() };
        for _restart in 0..2 {
            let group = hierarchy.place("u", &of_pod, "a", &resources).unwrap();
            assert_eq!(group, folder.path().join("pod-u/a"));
            let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
            assert_eq!(read("pod-u/cgroup.subtree_control"), "+cpu +memory");
            assert_eq!((read("pod-u/cpu.weight").as_str(), read("pod-u/a/cpu.weight").as_str()), ("39", "1"));
            assert_eq!(read("pod-u/a/cpu.max"), "20000 100000");
        }
    }

    #[test]
    fn names_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = hierarchy(folder.path().to_owned());
        let nothing = Resources::default();
        for (uid, container) in [("../x", "a"), ("u", ".."), ("u", "cgroup.procs"), ("", "a"), ("u", "a/b")] {
            let placed = hierarchy.place(uid, &nothing, container, &nothing);
            assert!(matches!(placed, Err(GroupError::Name(_))), "{uid} {container}");
        }
        assert_eq!(folders(folder.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn removes_groups_and_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        std::fs::create_dir_all(base.join("pod-u/a")).unwrap();
        std::fs::create_dir_all(base.join("pod-v/b")).unwrap();
        std::fs::write(base.join("pod-v/b/mine"), "").unwrap();
        hierarchy(base.clone()).remove_pod("u").unwrap();
        assert!(!base.join("pod-u").exists());
        assert!(remove_tree(&base).is_err());
        assert!(base.join("pod-v/b/mine").exists());
        assert!(remove_tree(&folder.path().join("none")).is_ok());
    }
}
