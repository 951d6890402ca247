//! `cargo xtask test`: the peers that tests run against, then every test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{cargo, exists, output, root, run as run_step};

/// Programs of other projects that tests run against, with their Debian packages.
const PEERS: &[(&str, &str)] = &[
    ("skopeo", "skopeo"),
    ("umoci", "umoci"),
    ("docker-registry", "docker-registry"),
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
];

#[derive(clap::Args)]
pub struct Options {
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Tests that miss a peer skip with the reason; with `CI=true` peers are installed first, and nothing may be missing.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if ci {
        install_peers()?;
    }
    if ci && !exists("go") {
        anyhow::bail!("CI needs Go: the kubectl tests would skip");
    }
    for (program, package) in PEERS.iter().filter(|(program, _)| !exists(program)) {
        println!("-- {program} is not here (Debian package {package}): its tests skip");
    }
    let mut command = cargo(&["test", "--workspace", "--quiet"]);
    if let Some(kubectl) = kubectl()? {
        command.env("MODELWAY_KUBECTL", kubectl);
    }
    if let Some(filter) = &options.filter {
        command.arg(filter);
    }
    run_step("tests", &mut command)
}

fn install_peers() -> anyhow::Result<()> {
    let missing: Vec<&str> =
        PEERS.iter().filter(|(program, _)| !exists(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    run_step("package lists", Command::new("apt-get").args(["update", "-qq"]))?;
    run_step("peers", Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing))
}

/// kubectl, built from its Go module once a version; none without Go.
fn kubectl() -> anyhow::Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("MODELWAY_KUBECTL") {
        return Ok(Some(named.into()));
    }
    let source = root().join("tests/kubectl");
    if !exists("go") {
        println!("-- Go is not here: the kubectl tests skip");
        return Ok(None);
    }
    let binary = target_directory()?.join("peers").join(format!("kubectl-{}", version(&source)?));
    if !binary.exists() {
        println!("-- building kubectl, once");
        let partial = binary.with_extension("partial");
        let mut build = Command::new("go");
        build.args(["build", "-C"]).arg(&source).args(["-trimpath", "-ldflags", "-s -w", "-o"]).arg(&partial).arg(".");
        run_step("kubectl", &mut build)?;
        std::fs::rename(&partial, &binary)?;
    }
    Ok(Some(binary))
}

/// The version of `k8s.io/kubernetes` in `go.mod`.
fn version(source: &Path) -> anyhow::Result<String> {
    let module = std::fs::read_to_string(source.join("go.mod"))?;
    let line =
        module.lines().find_map(|line| line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes "));
    Ok(line.and_then(|rest| rest.split_whitespace().next()).unwrap_or("unknown").to_owned())
}

fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata: serde_json::Value =
        serde_json::from_slice(&output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?)?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target")))
}
