//! `cargo xtask test`: the peers that tests run against, then every test.

use std::process::Command;

use crate::shell::{cargo, exists, run as run_step};

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
    if !exists("go") {
        println!("-- Go is not here: the kubectl tests skip");
    }
    for (program, package) in PEERS.iter().filter(|(program, _)| !exists(program)) {
        println!("-- {program} is not here (Debian package {package}): its tests skip");
    }
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--quiet"]);
    if ci {
        // A test that misses its peer fails instead of skipping.
        command.env("MODELWAY_REQUIRE_PEERS", "1");
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
