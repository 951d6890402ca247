//! Whether the kernel ran out of memory: its own count of processes that it killed for that.

/// How a shell, too, reports a process that was killed.
const KILLED: i32 = 128 + 9;

/// Processes that the kernel killed for want of memory since the machine started; none where it does not count them.
pub(super) fn kills() -> Option<u64> {
    count(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// A process that was killed, by nobody that we know, just when the kernel killed for want of memory.
pub(super) fn was_cause(exit_code: i32, ordered: bool, before: Option<u64>, after: Option<u64>) -> bool {
    exit_code == KILLED && !ordered && matches!((before, after), (Some(before), Some(after)) if after > before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_that_nobody_ordered_and_the_kernel_counted_is_one() {
        assert!(was_cause(137, false, Some(1), Some(2)));
        assert!(!was_cause(137, true, Some(1), Some(2)));
        assert!(!was_cause(137, false, Some(2), Some(2)));
        assert!(!was_cause(1, false, Some(1), Some(2)));
        assert!(!was_cause(137, false, None, Some(2)));
        assert_eq!(count("pgfault 5\noom_kill 7\nx 1\n"), Some(7));
    }
}
