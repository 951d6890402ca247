//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

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
