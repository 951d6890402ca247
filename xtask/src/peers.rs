//! Programs of other projects that tests run against: what they are, where Debian has them, and that they are here.

use std::process::Command;

use crate::shell::{exists, run};

/// Programs and their Debian packages.
const PEERS: &[(&str, &str)] = &[
    ("skopeo", "skopeo"),
    ("umoci", "umoci"),
    ("docker-registry", "docker-registry"),
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
    ("sysctl", "procps"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("busybox", "busybox-static"),
    ("openssl", "openssl"),
    ("curl", "curl"),
];

/// Installs the packages of what is missing.
pub fn install() -> anyhow::Result<()> {
    let missing: Vec<&str> = missing().map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    run("package lists", Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing);
    run("peers", install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Says what is missing, and so which tests skip.
pub fn report() {
    if !exists("go") {
        println!("-- Go is not here: tests with kubectl, Helm and real clusters skip unless their programs are built");
    }
    for (program, package) in missing() {
        println!("-- {program} is not here (Debian package {package}): its tests skip");
    }
}

fn missing() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    PEERS.iter().filter(|(program, _)| !exists(program) && !exists_for_root(program))
}

/// Some are where only root looks.
fn exists_for_root(program: &str) -> bool {
    ["/usr/sbin", "/sbin"].iter().any(|folder| std::path::Path::new(folder).join(program).is_file())
}
