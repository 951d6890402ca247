//! `cargo xtask bench load`: the load generator on one core, beside oha where it can be built.

use std::path::PathBuf;
use std::process::Command;

use crate::shell::{cargo, root, run};

/// The rival, from crates.io.
const OHA: &str = "1.16.0";

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; in each both generators run, one after the other.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Do not build oha when it is not there.
    #[arg(long)]
    alone: bool,
}

/// Prints each round, and medians: achieved rate, schedule delay, processor time of a request, its ratio to oha's.
pub fn load(options: &Options) -> anyhow::Result<()> {
    let oha = oha(options.alone);
    let mut bench =
        cargo(&["run", "--release", "--quiet", "--package", "modelway-tuner", "--example", "bench_load", "--"]);
    bench.arg(oha.unwrap_or_default()).args([options.rounds.to_string(), options.seconds.to_string()]);
    run("load generator against a server that does nothing", &mut bench)
}

/// The program, built unless it is there; none where that cannot be, or is not wanted.
fn oha(alone: bool) -> Option<PathBuf> {
    let tools = root().join("target/bench-tools");
    let program = tools.join("bin/oha");
    if !program.is_file() && !alone {
        let mut install = cargo(&["install", "oha", "--quiet", "--locked", "--version", OHA, "--root"]);
        let command: &mut Command = install.arg(&tools);
        if let Err(error) = run("building oha", command) {
            println!("-- oha is left out: {error:#}");
        }
    }
    program.is_file().then_some(program)
}
