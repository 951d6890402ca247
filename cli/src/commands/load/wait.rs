//! Waits for a server that is still starting.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use modelway_tuner::load::{Control, LoadError, Options, Source, report};
use tokio_util::sync::CancellationToken;

use super::plan;
use crate::args::LoadArguments;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// The options of the run, once the server has given a good answer.
pub fn for_answer(
    arguments: &LoadArguments,
    patience: Duration,
    token: &CancellationToken,
) -> Result<Options, LoadError> {
    let began = Instant::now();
    loop {
        // Some targets are asked for what they want before the first request.
        let problem = match plan::options(arguments) {
            Ok(options) => match answer(&options, patience.saturating_sub(began.elapsed())) {
                Ok(()) => return Ok(options),
                Err(problem) => problem,
            },
            Err(error @ LoadError::Input(_)) => return Err(error),
            Err(LoadError::Unreachable { problem, .. }) => problem,
            Err(error) => error.to_string(),
        };
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() || is_cancelled_within(token, PAUSE.min(left)) {
            let problem = format!("no good answer within {} s: {problem}", patience.as_secs());
            return Err(LoadError::Unreachable { target: arguments.url.clone(), problem });
        }
    }
}

/// Sends one request.
fn answer(options: &Options, patience: Duration) -> Result<(), String> {
    let one = Options {
        source: Source::Closed { users: NonZeroU64::MIN, think: Duration::ZERO },
        duration: None,
        requests: Some(1),
        warm_up: Duration::ZERO,
        timeout: options.timeout.min(patience.max(PAUSE)),
        ..options.clone()
    };
    let finished = modelway_tuner::load::run(&one, &mut |_| Control::Continue).map_err(|error| match error {
        LoadError::Unreachable { problem, .. } => problem,
        error => error.to_string(),
    })?;
    let report = report(&one, &finished);
    if report.requests.ok > 0 {
        return Ok(());
    }
    Err(report.errors.first().map_or_else(|| "it does not answer".to_owned(), |class| class.example.clone()))
}

fn is_cancelled_within(token: &CancellationToken, pause: Duration) -> bool {
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(async { tokio::time::timeout(pause, token.cancelled()).await.is_ok() })
}
