//! One file a command.

mod apply;
mod components;
mod delete;
mod doctor;
mod down;
mod explain;
mod get;
mod load;
mod logs;
mod model;
mod status;
mod tune;
mod up;

use clap::CommandFactory;

use crate::args::{Arguments, Command, ExampleCommand};
use crate::{output, quickstart};

pub use apply::{Mode, apply_documents};

/// Runs the command that was given.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Quickstart(arguments) => Box::pin(quickstart::run(arguments)).await,
        Command::Up(arguments) => Box::pin(up::run(arguments)).await,
        Command::Down(arguments) => down::run(&arguments).await,
        Command::Status(arguments) => status::run(&arguments),
        Command::Apply(arguments) => Box::pin(apply::run(&arguments)).await,
        Command::Get(arguments) => Box::pin(get::run(&arguments)).await,
        Command::Explain(arguments) => Box::pin(explain::run(&arguments)).await,
        Command::Delete(arguments) => Box::pin(delete::run(&arguments)).await,
        Command::Logs(arguments) => Box::pin(logs::run(&arguments)).await,
        Command::Doctor(arguments) => Box::pin(doctor::run(&arguments)).await,
        Command::Model(command) => Box::pin(model::run(command)).await,
        Command::Router(arguments) => Box::pin(components::router(arguments)).await,
        Command::Runtime(command) => Box::pin(components::runtime(command)).await,
        Command::Registry(arguments) => Box::pin(components::registry(arguments)).await,
        Command::Controller(arguments) => Box::pin(components::controller(arguments)).await,
        Command::Load(arguments) => load::run(*arguments).await,
        Command::Tune(command) => Box::pin(tune::command(command)).await,
        Command::Example(ExampleCommand::Digits { variant, output: folder }) => {
            let report = modelway_digits::train(variant, &folder)?;
            output::line(&format!(
                "accuracy {:.4} on held-out images, {} parameters",
                report.accuracy, report.parameters
            ));
            Ok(())
        }
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "modelway", &mut std::io::stdout());
            Ok(())
        }
        Command::Shim => {
            anyhow::bail!("the shim is started by the node, with a pod's description on its standard input")
        }
    }
}
