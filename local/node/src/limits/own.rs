//! Where this process is in the control groups of the machine.

use std::path::{Path, PathBuf};

use super::files::{Controller, Version};

/// What the kernel says of this process and of what is mounted.
#[derive(Debug, Default)]
pub struct OwnGroups {
    /// The content of `/proc/self/cgroup`.
    pub groups: String,
    /// The content of `/proc/self/mountinfo`.
    pub mounts: String,
}

impl OwnGroups {
    pub fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self { groups: read("/proc/self/cgroup"), mounts: read("/proc/self/mountinfo") }
    }

    /// The folder of this process's group of v2.
    pub fn v2(&self) -> Option<PathBuf> {
        self.folder(str::is_empty, |mount| mount.kind == "cgroup2")
    }

    /// The folder of this process's group in the hierarchy of v1 that has `controller`.
    pub fn v1(&self, controller: Controller) -> Option<PathBuf> {
        let name = controller.name();
        let has = |list: &str| list.split(',').any(|one| one == name);
        self.folder(has, |mount| mount.kind == "cgroup" && has(mount.options))
    }

    pub fn of(&self, version: Version, controller: Controller) -> Option<PathBuf> {
        match version {
            Version::V1 => self.v1(controller),
            Version::V2 => self.v2(),
        }
    }

    fn folder(&self, is_group: impl Fn(&str) -> bool, is_mount: impl Fn(&Mount<'_>) -> bool) -> Option<PathBuf> {
        let path = self.groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            is_group(controllers).then(|| fields.next()).flatten()
        })?;
        self.mounts
            .lines()
            .filter_map(Mount::parse)
            .filter(|mount| is_mount(mount))
            .find_map(|mount| mount.folder(path))
    }
}

/// One line of `mountinfo`.
struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    /// Those of the file system, which name the controllers of a v1 hierarchy.
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut system = system.split(' ');
        let kind = system.next()?;
        Some(Self { root: unescape(root).into(), point: unescape(point).into(), kind, options: system.nth(1)? })
    }

    /// A container may see its own part of the hierarchy only.
    fn folder(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).ok()?;
        Some(if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) })
    }
}

/// Blanks and the like stand there as octal numbers.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw,nsdelegate\n";

    #[test]
    fn finds_each_hierarchy_of_a_machine_that_has_both() {
        let own = OwnGroups {
            groups: "4:memory:/user/me\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/user.slice/a:b.scope\n".to_owned(),
            mounts: HYBRID.to_owned(),
        };
        assert_eq!(own.v1(Controller::Cpu), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(own.v1(Controller::Memory), Some("/sys/fs/cgroup/my memory/user/me".into()));
        assert_eq!(own.v2(), Some("/sys/fs/cgroup/unified/user.slice/a:b.scope".into()));
    }

    #[test]
    fn a_container_sees_its_own_part_only() {
        let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let own = |groups: &str| OwnGroups { groups: groups.to_owned(), mounts: mounts.to_owned() };
        assert_eq!(own("4:memory:/docker/abc/x\n").v1(Controller::Memory), Some("/sys/fs/cgroup/memory/x".into()));
        assert_eq!(own("4:memory:/elsewhere\n").v1(Controller::Memory), None);
        assert_eq!(own("4:memory:/docker/abc\n").v2(), None);
    }

    #[test]
    fn nonsense_finds_nothing() {
        let own =
            OwnGroups { groups: "a\n:\n0::\n".to_owned(), mounts: "x - y\n - \n1 2 3 / /m rw - cgroup2".to_owned() };
        assert_eq!((own.v2(), own.v1(Controller::Cpu)), (None, None));
    }
}
