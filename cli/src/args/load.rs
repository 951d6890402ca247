//! Command line of `modelway load`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use modelway_tuner::load::Constraint;

use super::SummaryOutput;
use super::components::duration;

#[derive(Args)]
pub struct LoadArguments {
    /// Where to: `http://HOST:PORT/PATH`. The path may have placeholders.
    pub url: String,
    #[command(flatten)]
    pub arrivals: ArrivalArguments,
    #[command(flatten)]
    pub request: RequestArguments,
    #[command(flatten)]
    pub judgement: JudgementArguments,
    #[command(flatten)]
    pub search: SearchArguments,
    #[command(flatten)]
    pub trial: TrialArguments,
    /// Write the distributions as a log of `HdrHistogram`.
    #[arg(long)]
    pub hdr: Option<PathBuf>,
    /// `table` for people, `json` for programs.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}

/// When requests are sent, and how many.
#[derive(Args)]
#[command(next_help_heading = "Arrivals (one of --rate, --trace, --users, --search)")]
#[group(skip)]
pub struct ArrivalArguments {
    /// Requests per second, whatever the server does (open loop).
    #[arg(long, value_parser = rate, group = "source")]
    pub rate: Option<f64>,
    /// Send at the offsets of this file: seconds, one a line (open loop).
    #[arg(long, group = "source")]
    pub trace: Option<PathBuf>,
    /// So many users, each of which waits for its answer (closed loop).
    #[arg(long, group = "source")]
    pub users: Option<NonZeroU64>,
    /// Find the highest rate that meets the constraints.
    #[arg(long, group = "source", requires = "constraint")]
    pub search: bool,
    /// How requests of --rate are spread.
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Spread,
    /// How long a user thinks before its next request, on average; the times are exponential, like those of people.
    #[arg(long, value_parser = duration, default_value = "0")]
    pub think: Duration,
    /// How long to measure. [default: 10s, without --requests and --trace]
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// End after this many requests, those of the warm-up among them.
    #[arg(long, conflicts_with = "search")]
    pub requests: Option<u64>,
    /// Send this long before measuring.
    #[arg(long, value_parser = duration, default_value = "0")]
    pub warm_up: Duration,
    /// Seed of arrivals and contents.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A request that has no complete answer after this time has failed.
    #[arg(long, value_parser = duration, default_value = "30s")]
    pub timeout: Duration,
    /// Most connections; requests that find none free wait, and their wait counts. [default: no limit]
    #[arg(long)]
    pub max_connections: Option<NonZeroUsize>,
    /// Threads of the generator.
    #[arg(long, default_value = "1")]
    pub threads: NonZeroUsize,
}

/// How requests of a rate are spread.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Spread {
    /// Like independent users.
    Poisson,
    /// Evenly.
    Constant,
}

/// What is sent.
#[derive(Args)]
#[command(next_help_heading = "Requests")]
pub struct RequestArguments {
    /// What is spoken.
    #[arg(long, value_enum, default_value = "http")]
    pub protocol: Protocol,
    /// Method. [default: GET, or POST with a body]
    #[arg(short = 'X', long)]
    pub method: Option<String>,
    /// Header, as `name: value`; may be given several times.
    #[arg(short = 'H', long = "header")]
    pub headers: Vec<String>,
    /// Body, or @FILE. Placeholders: {{seq}}, {{random}}, {{random:100}}, {{COLUMN}}, {{COLUMN|json}}.
    #[arg(short, long, group = "body")]
    pub data: Option<String>,
    /// Folder whose files are the bodies, in turn.
    #[arg(long, group = "body")]
    pub folder: Option<PathBuf>,
    /// CSV or JSON Lines file whose columns fill placeholders, row after row.
    #[arg(long)]
    pub columns: Option<PathBuf>,
    /// openai: name of the model.
    #[arg(long, default_value = "default")]
    pub model: String,
    /// openai: what is asked. Placeholders as in --data.
    #[arg(long, default_value = "Tell me about the number {{random:1000000}}.")]
    pub prompt: String,
    /// openai: tokens that are asked for.
    #[arg(long, default_value_t = 128)]
    pub max_tokens: u64,
    /// openai: ask for the answer as a whole.
    #[arg(long)]
    pub no_stream: bool,
    /// v2: rows of inputs whose first dimension may have any length.
    #[arg(long, default_value_t = 1)]
    pub batch: u64,
    /// v2: shape of an input, as NAME=1x3x224x224; may be given several times.
    #[arg(long = "shape", value_parser = shape)]
    pub shapes: Vec<(String, Vec<u64>)>,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Protocol {
    /// Any HTTP/1.1.
    Http,
    /// Completions and chat completions as `OpenAI` has them, streamed.
    Openai,
    /// Open Inference Protocol V2: URL of the model; random tensors unless --data or --folder is given.
    V2,
}

/// What is good.
#[derive(Args)]
#[command(next_help_heading = "Judgement")]
pub struct JudgementArguments {
    /// Statuses that are good, such as 200,404 or 2xx.
    #[arg(long, default_value = "2xx")]
    pub expect_status: String,
    /// Text that bodies must have.
    #[arg(long)]
    pub expect_body: Option<String>,
    /// Such as p95<=50ms, ttft.p95<=1s, itl.p99<=60ms, errors<=1% or rate>=100; may be given several times.
    #[arg(long = "constraint", id = "constraint")]
    pub constraints: Vec<Constraint>,
}

/// How the highest rate is looked for.
#[derive(Args)]
#[command(next_help_heading = "Search")]
#[group(skip)]
pub struct SearchArguments {
    /// Length of a short probe.
    #[arg(long, value_parser = duration, default_value = "15s")]
    pub probe: Duration,
    /// Least length of the window that certifies the result.
    #[arg(long, value_parser = duration, default_value = "60s")]
    pub certify: Duration,
    /// Where the limit is expected, in requests per second.
    #[arg(long, value_parser = rate)]
    pub expected_rate: Option<f64>,
    /// Highest rate that is tried.
    #[arg(long, value_parser = rate, default_value = "1000000")]
    pub highest_rate: f64,
}

/// What a trial of a tuner needs.
#[derive(Args)]
#[command(next_help_heading = "Trials")]
#[group(skip)]
pub struct TrialArguments {
    /// Wait so long for a first good answer before anything is sent. [default: do not wait]
    #[arg(long, value_parser = duration)]
    pub wait: Option<Duration>,
    /// Write what was measured to this file in at most 3 KiB of JSON; missed constraints are then a result, not a failure.
    #[arg(long)]
    pub result: Option<PathBuf>,
}

/// Requests per second, above 0.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 =
        text.trim_end_matches("/s").parse().map_err(|_| "is no number of requests per second".to_owned())?;
    // Above this, gaps are less than a nanosecond.
    if rate > 0.0 && rate <= 1e9 { Ok(rate) } else { Err("must be above 0, and at most 1e9".to_owned()) }
}

fn shape(text: &str) -> Result<(String, Vec<u64>), String> {
    let parsed = text.split_once('=').and_then(|(name, lengths)| {
        Some((name.to_owned(), lengths.split('x').map(|length| length.parse().ok()).collect::<Option<Vec<_>>>()?))
    });
    parsed.ok_or_else(|| "give NAME=LENGTHxLENGTH, such as input=1x3x224x224".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shapes_are_checked() {
        assert_eq!(rate("20/s").map(|rate| rate.to_string()), Ok("20".to_owned()));
        assert!(["0", "-1", "NaN", "inf", "x"].iter().all(|text| rate(text).is_err()));
        assert_eq!(shape("x=1x3"), Ok(("x".to_owned(), vec![1, 3])));
        assert!(["x", "x=", "x=1xx", "x=-1"].iter().all(|text| shape(text).is_err()));
    }
}
