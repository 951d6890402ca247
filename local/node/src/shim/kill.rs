//! Leaving no process behind.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

use crate::proc;

/// A fork bomb is given up on after this long; the sweep at the next start gets it.
const LIMIT: Duration = Duration::from_secs(30);

/// Kills everything below this process.
pub fn kill_descendants() {
    let own = getpid().as_raw_nonzero().get();
    kill_until_none(LIMIT, || proc::descendants(own));
}

/// Kills what `scan` finds until two scans in a row find nothing: a fork may slip through one scan, not through two.
/// Returns whether that was reached within `limit`.
pub fn kill_until_none(limit: Duration, scan: impl Fn() -> Vec<i32>) -> bool {
    let start = Instant::now();
    let mut empty_scans = 0;
    while empty_scans < 2 {
        let found = scan();
        if start.elapsed() > limit {
            return false;
        }
        if found.is_empty() {
            empty_scans += 1;
            continue;
        }
        empty_scans = 0;
        for pid in found.into_iter().filter_map(Pid::from_raw) {
            // Gone already is as good as killed; another user's process cannot be ours.
            let _ = kill_process(pid, Signal::KILL);
        }
        pause(Duration::from_millis(2));
    }
    true
}

/// Collects children that ended. Returns the status of `wanted` when it is among them.
pub fn reap(wanted: Option<Pid>) -> Option<rustix::process::WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if Some(pid) == wanted {
            found = Some(status);
        }
    }
    found
}

/// A wait of less than a second.
pub fn pause(duration: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(duration.subsec_nanos()) };
    let _ = poll(&mut [], Some(&timeout));
}
