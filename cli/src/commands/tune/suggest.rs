//! `modelway tune suggest`: a conversation over standard input and output.

use std::io::{BufRead, Read, Write};
use std::time::Instant;

use modelway_tuner::ask::Session;
use modelway_tuner::experiment::unix_seconds;

use crate::args::TuneSuggestArguments;
use crate::output;

/// Bytes of a line that are kept; what is longer is answered with an error.
const MAX_LINE: u64 = 8 << 20;

pub fn run(arguments: TuneSuggestArguments) -> anyhow::Result<()> {
    let mut session = Session::new(arguments.journal);
    let mut input = std::io::stdin().lock();
    let mut before = 0.0;
    let mut began: Option<Instant> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let elapsed = before + began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        if let Some(answer) = session.answer(&text, elapsed, unix_seconds()) {
            output::raw(&[serde_json::to_vec(&answer)?, b"\n".to_vec()].concat())?;
            std::io::stdout().flush()?;
        }
        // The experiment begins with its question.
        if began.is_none() && session.has_begun() {
            (began, before) = (Some(Instant::now()), session.elapsed_before());
        }
    }
}
