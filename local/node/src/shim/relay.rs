//! The shim's one loop: output to the log, orders to the container, until the container or the platform ends.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, WaitStatus, kill_process, pidfd_open};

use super::kill::{kill_descendants, reap};
use super::log::{LogWriter, Stream};
use super::memory::{Before, KillCount};
use super::record::{ExitRecord, now};
use super::{Order, ShimError, ShimSpec};

/// How often orphans that ended are collected when nothing else happens.
const TICK: Duration = Duration::from_secs(1);
/// How many reads one output gets before the others have their turn.
const READS_A_TURN: usize = 16;
/// Ticks between looks at the kernel's count of kills: a kill between two looks is told from all earlier ones.
const MEMORY_TICKS: u32 = 5;

/// How a run ended.
pub enum End {
    /// With whether the kernel killed it for want of memory.
    Exited(WaitStatus, bool),
    PlatformLost,
    NotStarted(String),
}

impl End {
    pub fn not_started(spec: &ShimSpec, error: &io::Error) -> Self {
        let (program, folder) = (spec.program.display(), spec.working_dir.display());
        Self::NotStarted(format!("cannot start {program} in {folder}: {error}"))
    }

    pub fn record(self, started_at: Timestamp) -> ExitRecord {
        let mut record = ExitRecord::lost(started_at, now());
        match self {
            Self::PlatformLost => {}
            Self::NotStarted(error) => {
                record = ExitRecord { exit_code: 128, signal: None, start_error: Some(error), ..record };
                record.platform_lost = false;
            }
            Self::Exited(status, oom_killed) => {
                record.platform_lost = false;
                record.signal = status.terminating_signal();
                record.exit_code = exit_code(status);
                record.oom_killed = oom_killed;
            }
        }
        record
    }
}

/// As a shell would report it.
fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().unwrap_or_else(|| 128 + status.terminating_signal().unwrap_or(0))
}

/// The running container as the shim sees it.
pub struct Relay {
    pid: Pid,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    log: LogWriter,
    /// The platform ordered the kill.
    ordered: bool,
    kills: KillCount,
    /// The kernel's count of kills a moment ago.
    killed: Before,
}

#[derive(Clone, Copy)]
enum Source {
    Orders,
    Exit,
    Output(Stream),
}

impl Relay {
    pub fn new(spec: &ShimSpec, mut child: Child) -> Result<Self, ShimError> {
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(ShimError::Pipes)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        for descriptor in stdout.iter().map(AsFd::as_fd).chain(stderr.iter().map(AsFd::as_fd)) {
            let flags = fcntl_getfl(descriptor).map_err(ShimError::Pipes)?;
            fcntl_setfl(descriptor, flags | OFlags::NONBLOCK).map_err(ShimError::Pipes)?;
        }
        let log = LogWriter::open(&spec.log_file, spec.log_limit);
        let kills = KillCount::of(spec.limits.kill_count.as_deref());
        let killed = Before::of(kills.read());
        Ok(Self { pid, pidfd, stdout, stderr, log, ordered: false, kills, killed })
    }

    pub fn run(mut self) -> End {
        let mut ticks = 0_u32;
        let end = loop {
            if let Some(status) = reap(Some(self.pid)) {
                let oom_killed = self.kills.was_cause(exit_code(status), self.ordered, self.killed.count());
                break End::Exited(status, oom_killed);
            }
            let ready = self.wait(TICK);
            if ready.is_empty() {
                ticks = ticks.wrapping_add(1);
                if ticks.is_multiple_of(MEMORY_TICKS) {
                    self.killed.pass(self.kills.read());
                }
            }
            if self.handle(&ready) {
                break End::PlatformLost;
            }
        };
        // Whatever still holds the pipes open goes first; what it wrote is still read.
        kill_descendants();
        self.drain();
        end
    }

    /// Returns whether the platform is gone.
    fn handle(&mut self, ready: &[Source]) -> bool {
        for source in ready {
            match source {
                Source::Orders => match self.obey() {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return true,
                },
                Source::Exit => {}
                Source::Output(stream) => self.copy(*stream),
            }
        }
        false
    }

    fn wait(&self, limit: Duration) -> Vec<Source> {
        let mut sources = vec![Source::Orders, Source::Exit];
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![rustix::stdio::stdin(), self.pidfd.as_fd()];
        if let Some(stdout) = &self.stdout {
            sources.push(Source::Output(Stream::Stdout));
            descriptors.push(stdout.as_fd());
        }
        if let Some(stderr) = &self.stderr {
            sources.push(Source::Output(Stream::Stderr));
            descriptors.push(stderr.as_fd());
        }
        let mut polled: Vec<PollFd<'_>> =
            descriptors.into_iter().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap_or(1), tv_nsec: 0 };
        if poll(&mut polled, Some(&timeout)).is_err() {
            return Vec::new();
        }
        sources.into_iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty()).map(|(s, _)| s).collect()
    }

    /// Reads orders; `false` is the end of the platform.
    fn obey(&mut self) -> io::Result<bool> {
        let mut buffer = [0_u8; 256];
        let length = rustix::io::read(rustix::stdio::stdin(), &mut buffer)?;
        for order in Order::parse(&buffer[..length]) {
            match order {
                Order::Terminate => drop(kill_process(self.pid, Signal::TERM)),
                // The status of the first process stays for the loop to collect.
                Order::Kill => {
                    self.ordered = true;
                    kill_descendants();
                }
            }
        }
        Ok(length > 0)
    }

    fn copy(&mut self, stream: Stream) {
        for _ in 0..READS_A_TURN {
            let mut buffer = [0_u8; 16 << 10];
            let read = match stream {
                Stream::Stdout => self.stdout.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut buffer)),
                Stream::Stderr => self.stderr.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut buffer)),
            };
            match read {
                Ok(0) => return self.close(stream),
                Ok(length) => self.log.write(stream, &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout => self.stdout = None,
            Stream::Stderr => self.stderr = None,
        }
    }

    /// Reads what the pipes still hold; their writers are dead, so they end. The bound is their capacity.
    fn drain(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.copy(stream);
            self.copy(stream);
        }
        self.log.finish();
    }
}
