//! `cargo xtask cluster`: the programs of the test clusters, and a cluster to try things on.

use std::process::Command;
use std::time::Instant;

use crate::shell::{self, run};

#[derive(clap::Subcommand)]
pub enum Cluster {
    /// Builds the programs with Go where they are not built yet: 10-15 minutes the first time.
    Build(Options),
    /// Runs a cluster until its input ends (Ctrl-D), and prints the folder of its state: logs, `pki/admin.kubeconfig`.
    Up(Options),
}

#[derive(clap::Args)]
pub struct Options {
    /// api: etcd and the API server; control: the controllers and the scheduler too; node: two nodes too (wants root).
    #[arg(long, value_enum, default_value_t = Level::Node)]
    level: Level,
    /// Helm too.
    #[arg(long)]
    helm: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    Api,
    Control,
    Node,
}

/// Runs the subcommand.
pub fn command(command: &Cluster) -> anyhow::Result<()> {
    match command {
        Cluster::Build(options) => build(options.level, options.helm),
        Cluster::Up(options) => {
            let level = match options.level {
                Level::Api => "api",
                Level::Control => "control",
                Level::Node => "node",
            };
            build(options.level, options.helm)?;
            run("cluster, until its input ends", Command::new(script("guard.sh")).arg(level))
        }
    }
}

/// Builds what a level needs; at once where it is built already.
pub fn build(level: Level, helm: bool) -> anyhow::Result<()> {
    let mut what = vec!["kube"];
    if level == Level::Node {
        what.extend(["node", "coredns", "mkimage"]);
    }
    if helm {
        what.push("helm");
    }
    let start = Instant::now();
    run("programs of the test clusters", Command::new(script("build.sh")).args(what))?;
    println!("-- built or found in {} s", start.elapsed().as_secs());
    Ok(())
}

fn script(name: &str) -> std::path::PathBuf {
    shell::root().join("tests/cluster").join(name)
}
