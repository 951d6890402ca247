//! Finding and killing what an earlier life of the platform left behind.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits;
use crate::proc;
use crate::shim::kill_until_none;

/// Environment variable that names the pod of a process.
pub const POD_MARK: &str = "MODELWAY_POD_UID";
/// Environment variable that names the data folder whose platform started a process.
pub const DATA_MARK: &str = "MODELWAY_NODE_DATA";

/// Enough for any honest number of processes.
const LIMIT: Duration = Duration::from_secs(10);

/// Kills every process that a platform on `data_dir` started, and removes the control groups that it made; returns how many
/// processes there were.
///
/// Call it only while holding the data folder: a living platform's pods carry the same mark.
pub fn sweep(data_dir: &Path) -> io::Result<usize> {
    let killed = kill_marked(&mark(data_dir)?)?;
    // A process that shed its mark is still in its control group.
    Ok(killed + limits::sweep(data_dir)?)
}

/// Kills what is left of one pod whose shim died: what carries its mark, and what is in the control groups behind `groups`.
pub(crate) fn sweep_pod(uid: &str, groups: &[PathBuf]) -> io::Result<usize> {
    let entry = format!("{POD_MARK}={uid}");
    kill_all(&entry, || proc::with_environment(&entry).into_iter().chain(limits::members(groups)).collect())
}

/// The `NAME=value` entry that the pods of `data_dir` carry.
pub(crate) fn mark(data_dir: &Path) -> io::Result<String> {
    Ok(format!("{DATA_MARK}={}", data_dir.canonicalize()?.display()))
}

fn kill_marked(entry: &str) -> io::Result<usize> {
    kill_all(entry, || proc::with_environment(entry))
}

/// Kills what `find` finds until it finds nothing; `mark` names it in the error.
fn kill_all(mark: &str, find: impl Fn() -> Vec<i32>) -> io::Result<usize> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    // A platform may itself run inside a pod.
    let spared = proc::ancestry(own);
    let scan = || find().into_iter().filter(|pid| *pid > 0 && !spared.contains(pid)).collect::<Vec<_>>();
    let found = scan().len();
    if kill_until_none(LIMIT, scan) {
        return Ok(found);
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("processes with {mark} keep starting; look with `ps`, kill their parent"),
    ))
}
