//! The process that owns a cluster, and ends it when this process closes a pipe or dies.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;

use super::Error;
use super::facts::Facts;

/// How much of a cluster there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// etcd and the API server: schemas, apply, watch, RBAC.
    Api,
    /// The controllers and the scheduler too: ownership, scale, scheduling to nodes that tests make up.
    Control,
    /// Two nodes too, which run pods; kube-proxy, DNS and two registries. Wants root on Linux.
    Node,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Control => "control",
            Self::Node => "node",
        }
    }
}

/// What a test may ask of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub level: Level,
    /// Whether etcd waits for the disk as in production; off, tests are quicker.
    pub fsync: bool,
}

impl From<Level> for Options {
    fn from(level: Level) -> Self {
        Self { level, fsync: false }
    }
}

/// A running guard.
#[derive(Debug)]
pub struct Guard {
    /// Its standard input is the pipe whose end ends the cluster.
    process: Child,
    pub state: PathBuf,
    pub facts: Facts,
}

/// The running clusters of this process: the state folder, and where logs are kept.
static RUNNING: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());

/// More than the guard's own bounds together.
const END: Duration = Duration::from_mins(1);

impl Guard {
    /// Starts a cluster and waits until it is ready; blocks for seconds, or for minutes when the programs are to be built.
    pub fn start(options: Options) -> Result<Self, Error> {
        keep_logs_of_panics();
        let guard = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/guard.sh");
        let mut command = Command::new(&guard);
        command.arg(options.level.word()).args(options.fsync.then_some("fsync"));
        // Ctrl-C at a terminal ends the test alone: the guard then sees the pipe's end.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|source| Error::Guard { guard: guard.clone(), source })?;
        let mut answer = String::new();
        if let Some(output) = process.stdout.take() {
            // One short line; a bound all the same.
            let _ = BufReader::new(output.take(64 * 1024)).read_line(&mut answer);
        }
        match state_of(&answer, &guard) {
            Ok(state) => {
                let facts = Facts::read(&state)?;
                RUNNING.lock().push((state.clone(), facts.kept_logs.clone()));
                Ok(Self { process, state, facts })
            }
            Err(error) => {
                // It is ending by itself.
                process.stdin = None;
                let _ = process.wait();
                Err(error)
            }
        }
    }

    /// The process that owns the cluster.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends the cluster and waits until nothing is left of it.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.close();
        let Self { mut process, .. } = self;
        let ended = tokio::task::spawn_blocking(move || process.wait());
        match tokio::time::timeout(END, ended).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Endless("the end of the cluster".to_owned())),
        }
    }

    fn close(&mut self) {
        RUNNING.lock().retain(|(state, _)| *state != self.state);
        self.process.stdin = None;
    }
}

/// The state folder of the cluster that a guard says is ready.
fn state_of(answer: &str, guard: &Path) -> Result<PathBuf, Error> {
    match answer.trim().split_once(' ') {
        Some(("ready", state)) => Ok(PathBuf::from(state)),
        Some(("missing", what)) => Err(Error::Missing(what.to_owned())),
        Some(("failed", why)) => Err(Error::Start(why.to_owned())),
        _ => Err(Error::Silent(guard.to_owned())),
    }
}

/// A test that fails keeps the logs of the clusters that it may have used.
#[expect(clippy::print_stderr, reason = "beside the panic's own words")]
fn keep_logs_of_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            for (state, kept) in RUNNING.lock().iter() {
                if !state.join("keep").exists() && keep_logs(state).is_ok() {
                    eprintln!("the cluster's logs will be in {kept}", kept = kept.display());
                }
            }
        }));
    });
}

/// Has the guard keep the logs.
pub fn keep_logs(state: &Path) -> Result<(), Error> {
    let path = state.join("keep");
    std::fs::write(&path, "").map_err(|source| Error::State { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_peer_is_a_reason_to_skip() {
        let guard = Path::new("guard.sh");
        assert_eq!(state_of("ready /tmp/a b \n", guard).unwrap(), Path::new("/tmp/a b"));
        assert!(matches!(state_of("missing root \n", guard), Err(Error::Missing(what)) if what == "root"));
        assert!(matches!(state_of("failed no room \n", guard), Err(Error::Start(why)) if why == "no room"));
        assert!(matches!(state_of("", guard), Err(Error::Silent(_))));
        assert!(matches!(state_of("ready", guard), Err(Error::Silent(_))));
    }
}
