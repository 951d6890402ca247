//! Running other programs.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

/// Root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, PathBuf::from)
}

/// Runs a program in the root and fails when it does.
pub fn run(title: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("== {title}");
    let status = command.current_dir(root()).status().with_context(|| format!("{title}: cannot start {command:?}"))?;
    if !status.success() {
        bail!("{title} failed ({status}); repeat it alone with: {}", line(command));
    }
    Ok(())
}

/// As [`run`]; what runs longer than `bound` is killed, with everything that it started in its process group.
///
/// A terminal's Ctrl-C does not reach it: for runs without one.
pub fn run_within(title: &str, command: &mut Command, bound: Duration) -> anyhow::Result<()> {
    println!("== {title}");
    let spawned = command.current_dir(root()).process_group(0).spawn();
    let mut child = spawned.with_context(|| format!("{title}: cannot start {command:?}"))?;
    let group = format!("-{}", child.id());
    let (sender, ended) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait()));
    let Ok(status) = ended.recv_timeout(bound) else {
        Command::new("kill").args(["-9", "--", &group]).status()?;
        let _its_answer_is_too_late = waiter.join();
        bail!("{title} took more than {bound:?} and was killed: what ran last hangs; see above");
    };
    let status = status?;
    if !status.success() {
        bail!("{title} failed ({status}); repeat it alone with: {}", line(command));
    }
    Ok(())
}

/// `cargo` with arguments.
///
/// Cargo tells us about our own package by environment variables. Build scripts look at some of them (ring's does), so
/// they must not be inherited: everything would be built again after each plain `cargo` command.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let own = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| own.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(&name);
        }
    }
    command.args(arguments);
    command
}

/// Standard output of a program that must succeed.
pub fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    Ok(output.stdout)
}

/// Whether a program is on the PATH.
pub fn exists(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let error = run_within("a test of the bound", &mut command, Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("hangs"), "{error}");
        run_within("one that ends", &mut Command::new("true"), Duration::from_mins(1)).unwrap();
        assert!(run_within("one that fails", &mut Command::new("false"), Duration::from_mins(1)).is_err());
    }
}
