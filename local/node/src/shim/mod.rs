//! The shim: one small single-threaded process for each container.
//!
//! It starts the container's command, writes its output to the log, records its end in a file, and, above all, leaves no
//! process behind: neither when the command ends, nor when the platform dies (seen as the end of standard input).
//! Everything that it needs arrives as one JSON line on standard input; orders follow as lines `term` and `kill`.

mod child;
mod confine;
mod kill;
mod log;
mod memory;
mod record;
mod relay;
mod spec;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use kill::{kill_until_none, pause};
pub(crate) use log::older as older_log;
pub use record::ExitRecord;
pub use spec::{Order, ShimLimits, ShimSpec};

/// The largest specification that is read; a command line with its environment cannot be larger on Linux.
const SPEC_LIMIT: usize = 8 << 20;

/// Runs the shim until its container is gone. `args` are a label for people who read the process list; nothing depends on them.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    drop(args.into_iter());
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "shim failed");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> Result<(), ShimError> {
    // Fails only for a session leader, which has what it needs.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(ShimError::Subreaper)?;
    let spec = read_spec()?;
    let started = record::now();
    let end = match child::spawn(&spec) {
        Ok(child) => relay::Relay::new(&spec, child)?.run(),
        Err(error) => relay::End::not_started(&spec, &error),
    };
    kill::kill_descendants();
    end.record(started).write(&spec.exit_file).map_err(ShimError::Record)
}

/// Reads byte by byte up to the first newline, so that the orders after it stay in the pipe.
fn read_spec() -> Result<ShimSpec, ShimError> {
    let mut line = Vec::new();
    let mut byte = [0_u8];
    while line.len() < SPEC_LIMIT {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte).map_err(ShimError::Input)? {
            0 => break,
            _ if byte[0] == b'\n' => break,
            _ => line.push(byte[0]),
        }
    }
    serde_json::from_slice(&line).map_err(ShimError::Specification)
}

/// Why the shim could not do its work.
#[derive(Debug, thiserror::Error)]
enum ShimError {
    #[error("cannot become the parent of orphaned descendants: {0}")]
    Subreaper(rustix::io::Errno),
    #[error("cannot read the container specification from standard input: {0}")]
    Input(rustix::io::Errno),
    #[error("the container specification on standard input is not understood: {0}")]
    Specification(serde_json::Error),
    #[error("cannot set up the pipes of the container: {0}")]
    Pipes(rustix::io::Errno),
    #[error("cannot record how the container ended: {0}")]
    Record(std::io::Error),
}
