//! Starting the container's first process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal, setsid};

use super::ShimSpec;
use super::confine::Confinement;

/// Starts the command in a session of its own (`kill 0` in a script must not reach the shim), tied to the shim's life,
/// and within its limits.
pub fn spawn(spec: &ShimSpec) -> io::Result<Child> {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.working_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare_child(&mut command, Confinement::open(&spec.limits)?);
    command.spawn()
}

#[expect(unsafe_code, reason = "pre_exec is the only way to run code between fork and exec")]
fn prepare_child(command: &mut Command, confinement: Confinement) {
    let shim = getpid();
    // SAFETY: the closure only makes system calls through rustix: it allocates nothing and takes no lock, and the shim has
    // a single thread.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The shim may have died before the line above took effect.
            if getppid() != Some(shim) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            confinement.apply()
        });
    }
}
