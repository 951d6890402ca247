//! The one binary: every component of Modelway is a subcommand. This file only starts things.

mod args;
mod commands;
mod exit;
mod objects;
mod output;
mod platform;
mod processes;
mod progress;
mod quickstart;
mod stop;
mod target;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // The shim of a pod is small and single-threaded: it starts before anything else does.
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "shim") {
        return modelway_node::shim::main(arguments.into_iter().skip(2));
    }
    let arguments = args::Arguments::parse();
    start_logging(&arguments);
    // Fails only when a provider is installed already, which is as good.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::anyhow!("cannot start worker threads: {error}")),
    };
    match runtime.block_on(commands::run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

/// Text on a terminal, JSON elsewhere; `RUST_LOG` chooses, components log more than one-shot commands.
fn start_logging(arguments: &args::Arguments) {
    use std::io::IsTerminal;
    let default = arguments.command.default_log_level();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.compact().init();
    } else {
        builder.json().with_ansi(false).init();
    }
}
