//! The one list of developer commands.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod bench;
mod builtin_schemas;
mod check;
mod dependencies;
mod generate;
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
    /// Writes the generated files: CRDs of the chart, schemas of built-in kinds (needs Go).
    Generate(generate::Options),
    /// Measures, and prints figures as JSON.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// The quickstart's own figures over several runs: minimum, median, maximum.
    Quickstart(bench::Options),
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
        Command::Bench(Bench::Quickstart(options)) => bench::quickstart(&options),
    }
}
