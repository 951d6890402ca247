//! Finding out what this machine lets us do, by doing it.

use std::path::{Path, PathBuf};

use super::files::{Controller, Version};
use super::group::{GroupError, Hierarchy, enable, join, make_folder, processes_file};
use super::own::OwnGroups;
use super::record;

/// By what limits are enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitMeans {
    /// The best that works.
    #[default]
    Best,
    /// Control groups of version 2 where they work, else affinity.
    CgroupV2,
    /// Control groups of version 1 where they work, else affinity.
    CgroupV1,
    /// Whole cores and `RLIMIT_DATA`.
    Affinity,
    /// Nothing is enforced, and pods say so.
    Off,
}

impl LimitMeans {
    fn allows(self, version: Version) -> bool {
        match self {
            Self::Best => true,
            Self::CgroupV2 => version == Version::V2,
            Self::CgroupV1 => version == Version::V1,
            Self::Affinity | Self::Off => false,
        }
    }
}

/// What is looked at, and for whom.
pub struct Site<'a> {
    pub own: &'a OwnGroups,
    /// Name of the group above all pods of a data folder.
    pub name: &'a str,
    pub cores: u64,
    /// Moves a process into the folder that it is given.
    pub trial: &'a dyn Fn(&Path) -> Result<(), GroupError>,
}

impl Site<'_> {
    /// The folder of the platform's own group. One that a platform made for itself does not count: pods belong beside it.
    fn home(&self, version: Version, controller: Controller) -> Option<PathBuf> {
        home(self.own, version, controller)
    }

    fn open_v2(&self, home: &Path) -> Result<Hierarchy, GroupError> {
        let offered = std::fs::read_to_string(home.join("cgroup.controllers")).unwrap_or_default();
        let is_offered =
            |controller: &Controller| offered.split_ascii_whitespace().any(|name| name == controller.name());
        let controllers: Vec<Controller> = Controller::ALL.into_iter().filter(is_offered).collect();
        if controllers.is_empty() {
            return Err(GroupError::NoController { path: home.to_owned() });
        }
        let (is_root, processes) = (!home.join("cgroup.type").exists(), processes_here(home));
        if is_root || processes.is_empty() {
            enable(home, &controllers)?;
        } else {
            self.make_room(home, &processes, &controllers)?;
        }
        Hierarchy::make(Version::V2, home.join(self.name), controllers, self.cores, self.trial)
    }

    /// A group of v2, the root aside, has processes or groups that are limited, not both: the platform moves into a group of
    /// its own, if the one where it is has no other process.
    fn make_room(&self, home: &Path, processes: &str, controllers: &[Controller]) -> Result<(), GroupError> {
        let own = std::process::id();
        if processes != own.to_string() {
            return Err(GroupError::NotAlone { path: home.to_owned() });
        }
        let leaf = home.join(record::leaf(self.name));
        make_folder(&leaf)?;
        let moved = join(&leaf, own).and_then(|()| enable(home, controllers));
        if moved.is_err() {
            let _ = join(home, own);
            let _ = std::fs::remove_dir(&leaf);
        }
        moved
    }
}

fn processes_here(folder: &Path) -> String {
    std::fs::read_to_string(processes_file(folder)).unwrap_or_default().trim().to_owned()
}

fn home(own: &OwnGroups, version: Version, controller: Controller) -> Option<PathBuf> {
    let folder = own.of(version, controller)?;
    let is_leaf = folder.file_name().and_then(|name| name.to_str()).is_some_and(record::is_leaf);
    if is_leaf { folder.parent().map(Path::to_owned) } else { Some(folder) }
}

/// Every folder that [`hierarchies`] may make for a data folder with this name.
pub fn candidates(own: &OwnGroups, name: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for version in [Version::V2, Version::V1] {
        for home in Controller::ALL.into_iter().filter_map(|controller| home(own, version, controller)) {
            found.push(home.join(name));
            if version == Version::V2 {
                found.push(home.join(record::leaf(name)));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The hierarchies that work, each controller in one of them at most; v2 before v1.
pub fn hierarchies(means: LimitMeans, site: &Site<'_>) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    if means.allows(Version::V2)
        && let Some(home) = site.home(Version::V2, Controller::Cpu)
    {
        found.extend(noted(site.open_v2(&home)));
    }
    if means.allows(Version::V1) {
        for controller in Controller::ALL {
            if !found.iter().any(|one| one.has(controller)) {
                found.extend(open_v1(site, controller));
            }
        }
    }
    found
}

/// Controllers that share a hierarchy are kept as two, which make the same groups.
fn open_v1(site: &Site<'_>, controller: Controller) -> Option<Hierarchy> {
    let base = site.home(Version::V1, controller)?.join(site.name);
    noted(Hierarchy::make(Version::V1, base, vec![controller], site.cores, site.trial))
}

fn noted(opened: Result<Hierarchy, GroupError>) -> Option<Hierarchy> {
    opened.inspect_err(|error| tracing::debug!(%error, "control groups are not used here")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(root: &Path, groups: &str) -> OwnGroups {
        let mounts = ["cpu", "memory"]
            .map(|name| format!("1 2 3 / {} rw - cgroup cgroup rw,{name}\n", root.join(name).display()))
            .concat();
        let unified = format!("1 2 3 / {} rw - cgroup2 cgroup rw\n", root.join("unified").display());
        OwnGroups { groups: groups.to_owned(), mounts: mounts + &unified }
    }

    fn found(means: LimitMeans, own: &OwnGroups) -> Vec<Hierarchy> {
        let trial = |_: &Path| Ok(());
        hierarchies(means, &Site { own, name: "modelway-x", cores: 2, trial: &trial })
    }

    #[test]
    fn without_rights_nothing_is_found_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let own = own(folder.path(), "2:cpu:/a\n1:memory:/a\n0::/a\n");
        assert_eq!(found(LimitMeans::Best, &own), []);
        assert_eq!(found(LimitMeans::Affinity, &own), []);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_kernel_without_quotas_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("cpu/a")).unwrap();
        assert_eq!(found(LimitMeans::Best, &own(folder.path(), "2:cpu:/a\n")), []);
        let unified = folder.path().join("unified/a");
        std::fs::create_dir_all(&unified).unwrap();
        std::fs::write(unified.join("cgroup.controllers"), "io pids\n").unwrap();
        assert_eq!(found(LimitMeans::Best, &own(folder.path(), "0::/a\n")), []);
    }

    #[test]
    fn the_platform_moves_out_of_the_way_only_where_it_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("unified/a");
        std::fs::create_dir_all(&home).unwrap();
        let write = |file: &str, text: &str| std::fs::write(home.join(file), text).unwrap();
        let read = |file: &str| std::fs::read_to_string(home.join(file)).unwrap_or_default();
        write("cgroup.controllers", "cpu memory");
        write("cgroup.type", "domain");
        let (own, trial) = (own(folder.path(), "0::/a\n"), |_: &Path| Ok(()));
        let site = Site { own: &own, name: "modelway-x", cores: 2, trial: &trial };

        let both = format!("{}\n1\n", std::process::id());
        write("cgroup.procs", &both);
        let refused = site.open_v2(&home);
        assert!(matches!(refused, Err(GroupError::NotAlone { .. })), "{refused:?}");
        assert_eq!((read("cgroup.procs"), home.join("modelway-x-platform").exists()), (both, false));

        write("cgroup.procs", &format!("{}\n", std::process::id()));
        // The files of a real group are missing below it, so it ends there.
        assert!(matches!(site.open_v2(&home), Err(GroupError::Missing { .. })));
        assert_eq!(read("modelway-x-platform/cgroup.procs"), std::process::id().to_string());
        assert_eq!(read("cgroup.subtree_control"), "+cpu +memory");
    }

    #[test]
    fn names_every_folder_that_may_be_made() {
        let own = own(Path::new("/r"), "2:cpu:/a\n1:memory:/b\n0::/c/modelway-0123-platform\n");
        let expected = [
            "/r/cpu/a/modelway-x",
            "/r/memory/b/modelway-x",
            "/r/unified/c/modelway-x",
            "/r/unified/c/modelway-x-platform",
        ];
        assert_eq!(candidates(&own, "modelway-x"), expected.map(PathBuf::from));
    }
}
