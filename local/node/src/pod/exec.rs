//! A command that runs beside a container: exec probes and hooks.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::launch::Launch;
use super::run;
use crate::context::Context;

/// How much of a command's output is quoted.
const QUOTE_LIMIT: u64 = 1024;

/// Runs `command` beside the container, for `limit` at most; everything it started is gone afterwards.
pub async fn run(
    context: &Context,
    uid: &str,
    launch: &Launch,
    name: &str,
    command: &[String],
    limit: Duration,
) -> Result<(), String> {
    if command.is_empty() {
        return Err("the command is empty".to_owned());
    }
    let spec = launch.beside(&context.options.executable, name, command);
    let _ = std::fs::remove_file(&spec.log_file);
    let (handle, end) =
        run::start(context, uid, name, &spec).await.map_err(|error| format!("cannot run it: {error}"))?;
    let waited = tokio::time::timeout(limit, end.wait()).await;
    drop(handle);
    match waited {
        Err(_) => Err(format!("command timed out after {limit:?}")),
        Ok(record) if record.exit_code == 0 => Ok(()),
        Ok(record) => {
            let output = record.start_error.unwrap_or_else(|| tail(&spec.log_file));
            Err(format!("command ended with {}: {output}", record.exit_code))
        }
    }
}

/// The end of a container log without its times.
pub fn tail(path: &Path) -> String {
    let read = || {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(QUOTE_LIMIT)))?;
        let mut text = Vec::new();
        file.take(QUOTE_LIMIT).read_to_end(&mut text)?;
        std::io::Result::Ok(text)
    };
    let text = read().unwrap_or_default();
    let lines = String::from_utf8_lossy(&text);
    let plain: Vec<&str> = lines.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default()).collect();
    plain.join("\n")
}
