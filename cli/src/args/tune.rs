//! Command line of `modelway tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::SummaryOutput;

#[derive(Subcommand)]
pub enum TuneCommand {
    /// Tune a service of this machine: each trial starts it with other settings and puts load on it.
    #[command(
        after_help = "Examples:\n  modelway tune run examples/tune/tune.yaml --dry-run\n  modelway tune run tune.yaml --dir results"
    )]
    Run(TuneRunArguments),
    /// Say what to try next to another program that measures by itself: JSON lines on standard input and output.
    #[command(after_help = "Example:\n  my-benchmark | modelway tune suggest --journal tune.jsonl")]
    Suggest(TuneSuggestArguments),
    /// Make the report of a record, in any form.
    #[command(after_help = "Example:\n  modelway tune report tune-digits/record.json -o html --file report.html")]
    Report(TuneReportArguments),
    /// Compute the sequence of a record again, and say whether it is the same.
    #[command(after_help = "Example:\n  modelway tune replay tune-digits/record.json")]
    Replay(TuneReplayArguments),
}

#[derive(Args)]
pub struct TuneRunArguments {
    /// What is tuned, and how: see docs/tuning.md.
    pub file: PathBuf,
    /// Folder of journal, record and report. [default: tune-NAME]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Forget what an earlier run measured.
    #[arg(long)]
    pub fresh: bool,
    /// Check the file and say what would be tried; start nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// `table` for people, `json` for programs.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}

#[derive(Args)]
pub struct TuneSuggestArguments {
    /// Keep what is told in this file, and go on from it after an interruption.
    #[arg(long)]
    pub journal: Option<PathBuf>,
}

#[derive(Args)]
pub struct TuneReportArguments {
    /// Record of an experiment.
    pub record: PathBuf,
    /// Which form.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: ReportForm,
    /// Write it to this file. [default: standard output]
    #[arg(long)]
    pub file: Option<PathBuf>,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ReportForm {
    /// For this terminal.
    Table,
    /// One page without scripts or links to elsewhere.
    Html,
    /// For a pull request or a wiki.
    Markdown,
    /// For programs.
    Json,
}

#[derive(Args)]
pub struct TuneReplayArguments {
    /// Record of an experiment.
    pub record: PathBuf,
    /// `table` for people, `json` for programs.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}
