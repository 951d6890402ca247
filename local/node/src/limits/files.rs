//! What to write into the files of a control group.

use super::resources::Resources;

/// Length of the period over which a CPU quota counts, in microseconds: the kernel's default, and Kubernetes' own.
const PERIOD: u64 = 100_000;
/// The kernel takes no smaller quota.
const LEAST_QUOTA: u64 = 1000;
/// What a container that asks for nothing weighs, as in Kubernetes; 1024 stand for one core.
const LEAST_SHARES: u64 = 2;
const MOST_SHARES: u64 = 262_144;

/// The two kinds of control groups that Linux has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The two resources that are limited here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    Cpu,
    Memory,
}

impl Controller {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// One value to write into one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub file: &'static str,
    pub value: String,
    /// Not every kernel has the file, and the limit holds without it.
    pub optional: bool,
}

fn must(file: &'static str, value: &impl ToString) -> Setting {
    Setting { file, value: value.to_string(), optional: false }
}

fn may(file: &'static str, value: &impl ToString) -> Setting {
    Setting { optional: true, ..must(file, value) }
}

/// The settings of a group that holds `resources`, in the order in which they are to be written.
pub fn settings(version: Version, controller: Controller, resources: &Resources) -> Vec<Setting> {
    match controller {
        Controller::Cpu => cpu(version, resources),
        Controller::Memory => memory(version, resources),
    }
}

fn cpu(version: Version, resources: &Resources) -> Vec<Setting> {
    let mut settings = vec![weight(version, resources.cpu_request)];
    if let Some(limit) = &resources.cpu {
        let quota = (limit.value.saturating_mul(PERIOD) / 1000).max(LEAST_QUOTA);
        match version {
            Version::V2 => settings.push(must("cpu.max", &format!("{quota} {PERIOD}"))),
            Version::V1 => {
                settings.push(must("cpu.cfs_period_us", &PERIOD));
                settings.push(must("cpu.cfs_quota_us", &quota));
            }
        }
    }
    settings
}

/// How much a group gets while cores are short, from what it asks for.
pub fn weight(version: Version, request: u64) -> Setting {
    let shares = (request.saturating_mul(1024) / 1000).clamp(LEAST_SHARES, MOST_SHARES);
    match version {
        Version::V1 => may("cpu.shares", &shares),
        // The range 2..262144 onto 1..10000, as the Kubernetes enhancement 2254 does it.
        Version::V2 => may("cpu.weight", &(1 + (shares - LEAST_SHARES) * 9999 / (MOST_SHARES - LEAST_SHARES))),
    }
}

/// Without swap: a container at its limit is killed, as in Kubernetes, and does not crawl.
fn memory(version: Version, resources: &Resources) -> Vec<Setting> {
    let Some(limit) = &resources.memory else { return Vec::new() };
    match version {
        Version::V2 => {
            vec![must("memory.max", &limit.value), may("memory.swap.max", &0), may("memory.oom.group", &1)]
        }
        Version::V1 => {
            vec![must("memory.limit_in_bytes", &limit.value), may("memory.memsw.limit_in_bytes", &limit.value)]
        }
    }
}

/// The file whose line `oom_kill` counts the processes of the group that were killed for want of memory.
pub fn kill_count_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.oom_control",
        Version::V2 => "memory.events",
    }
}

/// The file without which the kernel cannot enforce a limit.
pub fn limit_file(version: Version, controller: Controller) -> &'static str {
    match (version, controller) {
        (Version::V2, Controller::Cpu) => "cpu.max",
        (Version::V2, Controller::Memory) => "memory.max",
        (Version::V1, Controller::Cpu) => "cpu.cfs_quota_us",
        (Version::V1, Controller::Memory) => "memory.limit_in_bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::resources::Limit;

    fn written(version: Version, resources: &Resources) -> Vec<String> {
        Controller::ALL
            .into_iter()
            .flat_map(|controller| settings(version, controller, resources))
            .map(|setting| format!("{}={}", setting.file, setting.value))
            .collect()
    }

    fn limited(cpu: u64, memory: u64) -> Resources {
        let limit = |value| Some(Limit { declared: String::new(), value });
        Resources { cpu: limit(cpu), memory: limit(memory), cpu_request: 1000 }
    }

    #[test]
    fn limits_become_quotas_and_byte_counts() {
        let v2 = written(Version::V2, &limited(1500, 4096));
        assert_eq!(
            v2,
            ["cpu.weight=39", "cpu.max=150000 100000", "memory.max=4096", "memory.swap.max=0", "memory.oom.group=1"]
        );
        let v1 = written(Version::V1, &limited(200, 4096));
        let memory = ["memory.limit_in_bytes=4096", "memory.memsw.limit_in_bytes=4096"];
        assert_eq!(v1[..3], ["cpu.shares=1024", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=20000"]);
        assert_eq!(v1[3..], memory);
    }

    #[test]
    fn requests_alone_weigh_and_limit_nothing() {
        let resources = Resources { cpu_request: 500, ..Resources::default() };
        assert_eq!(written(Version::V1, &resources), ["cpu.shares=512"]);
        assert_eq!(written(Version::V2, &resources), ["cpu.weight=20"]);
        assert_eq!(written(Version::V2, &Resources::default()), ["cpu.weight=1"]);
    }

    #[test]
    fn extremes_stay_within_what_the_kernel_takes() {
        assert!(written(Version::V2, &limited(1, 1)).contains(&"cpu.max=1000 100000".to_owned()));
        assert_eq!(weight(Version::V1, u64::MAX).value, "262144");
        assert_eq!(weight(Version::V2, u64::MAX).value, "10000");
    }
}
