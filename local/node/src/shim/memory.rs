//! Whether memory ran out: the kernel's own count of processes that it killed for that.

use std::path::{Path, PathBuf};

/// How a shell, too, reports a process that was killed.
const KILLED: i32 = 128 + 9;

/// Where the kernel counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KillCount {
    /// For the container alone.
    Container(PathBuf),
    /// For the whole machine.
    Machine,
}

impl KillCount {
    pub(super) fn of(container: Option<&Path>) -> Self {
        container.map_or(Self::Machine, |file| Self::Container(file.to_owned()))
    }

    /// Processes killed for want of memory so far; none where the kernel does not count them.
    pub(super) fn read(&self) -> Option<u64> {
        let file = match self {
            Self::Container(file) => file.as_path(),
            Self::Machine => Path::new("/proc/vmstat"),
        };
        count(&std::fs::read_to_string(file).ok()?)
    }

    /// Whether a run that ended now with `exit_code`, and that nobody we know killed, ended for want of memory.
    pub(super) fn was_cause(&self, exit_code: i32, ordered: bool, before: Option<u64>) -> bool {
        self.explains(exit_code, ordered)
            && matches!((before, self.read()), (Some(before), Some(after)) if after > before)
    }

    /// A container may fail because one of its processes was killed; another container of the machine is no reason unless
    /// this one was killed, too.
    fn explains(&self, exit_code: i32, ordered: bool) -> bool {
        !ordered
            && match self {
                Self::Container(_) => exit_code != 0,
                Self::Machine => exit_code == KILLED,
            }
    }
}

/// The count a while ago. What failed for want of memory a moment ago may end only now: a shell whose child was killed goes
/// on to its next line. The count just before the end would miss that, so it is that of one reading before the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Before {
    older: Option<u64>,
    newer: Option<u64>,
}

impl Before {
    pub(super) fn of(count: Option<u64>) -> Self {
        Self { older: count, newer: count }
    }

    /// Some time has passed.
    pub(super) fn pass(&mut self, count: Option<u64>) {
        *self = Self { older: self.newer, newer: count };
    }

    pub(super) fn count(self) -> Option<u64> {
        self.older
    }
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_just_before_the_last_reading_is_still_a_cause() {
        let mut before = Before::of(Some(0));
        // Read between the kill and the end of the shell that waited for what was killed.
        before.pass(Some(1));
        let (_file, kills) = counted("oom_kill 1\n");
        assert!(kills.was_cause(3, false, before.count()));
        before.pass(Some(1));
        assert!(!kills.was_cause(3, false, before.count()), "a kill of long ago is no cause");
    }

    fn counted(text: &str) -> (tempfile::NamedTempFile, KillCount) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let count = KillCount::of(Some(file.path()));
        (file, count)
    }

    #[test]
    fn only_a_kill_that_nobody_ordered_and_the_kernel_counted_is_one() {
        let (_file, kills) = counted("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        assert_eq!(kills.read(), Some(2));
        assert!(kills.was_cause(137, false, Some(1)));
        assert!(kills.was_cause(1, false, Some(1)), "a worker of the container was killed");
        assert!(!kills.was_cause(0, false, Some(1)));
        assert!(!kills.was_cause(137, true, Some(1)));
        assert!(!kills.was_cause(137, false, Some(2)));
        assert!(!kills.was_cause(137, false, None));
    }

    #[test]
    fn a_kill_elsewhere_on_the_machine_explains_only_a_kill() {
        assert!(KillCount::Machine.explains(137, false));
        assert!(!KillCount::Machine.explains(1, false));
        assert_eq!(count("pgfault 5\noom_kill 7\nx 1\n"), Some(7));
        assert_eq!(count("low 0\nmax 9\noom 1\noom_kill 3\noom_group_kill 1\n"), Some(3));
    }
}
