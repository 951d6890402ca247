//! The one list of developer commands.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod bench;
mod builtin_schemas;
mod check;
mod cluster;
mod dependencies;
mod generate;
mod image;
mod peers;
mod rbac;
mod shell;
mod test;

use clap::{Parser, Subcommand};

/// Developer commands of Modelway.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Format, lints, generated files, documentation, dependency rules: everything but the tests.
    Check,
    /// Every test; builds and, where CI=true on Debian, installs the peers that tests run against.
    Test(test::Options),
    /// Writes the generated files: CRDs and roles of the chart, schemas of built-in kinds (needs Go).
    Generate(generate::Options),
    /// Builds the static binary and packs it as a reproducible OCI image archive; needs no Docker.
    Image(image::Options),
    /// A real Kubernetes on this machine, as tests run it.
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Measures, and prints figures as JSON.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// The quickstart's own figures over several runs: minimum, median, maximum.
    Quickstart(bench::Options),
    /// The embedded API against a real API server with etcd; the controller with many objects.
    Control,
    /// Sleeping and waking on the embedded platform: cold starts, and many Inferences at rest.
    Scaling(bench::ScalingOptions),
    /// The load generator against a server that does nothing, beside oha.
    Load(bench::load::Options),
    /// The tuner against its rivals: trials until the optimum, on tables whose optimum is known.
    Tune(bench::tune::Options),
}

fn main() -> std::process::ExitCode {
    match run(Command::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check => check::run(),
        Command::Test(options) => test::run(&options),
        Command::Generate(options) => generate::run(&options),
        Command::Image(options) => image::run(&options),
        Command::Cluster(command) => cluster::command(&command),
        Command::Bench(Bench::Quickstart(options)) => bench::quickstart(&options),
        Command::Bench(Bench::Control) => bench::control(),
        Command::Bench(Bench::Scaling(options)) => bench::scaling(&options),
        Command::Bench(Bench::Load(options)) => bench::load::load(&options),
        Command::Bench(Bench::Tune(options)) => bench::tune::tune(&options),
    }
}
