//! `modelway tune`: the best settings of a service in a handful of stress tests.

mod launcher;
mod replay;
mod report;
mod run;
mod signals;
mod suggest;
mod summary;
mod view;

use crate::args::TuneCommand;

pub async fn command(command: TuneCommand) -> anyhow::Result<()> {
    match command {
        TuneCommand::Run(arguments) => run::run(arguments).await,
        TuneCommand::Report(arguments) => report::run(&arguments),
        TuneCommand::Replay(arguments) => replay::run(&arguments),
        TuneCommand::Suggest(arguments) => tokio::task::spawn_blocking(|| suggest::run(arguments)).await?,
    }
}
