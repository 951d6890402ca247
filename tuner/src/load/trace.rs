//! Recorded arrivals from a file: one offset a line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::LoadError;

/// Offsets that one file may hold (160 MB of them).
const MAX_OFFSETS: usize = 10_000_000;

/// Reads a trace: each line has seconds since the start (`0.25`), alone or before a comma; empty lines, lines that begin
/// with `#`, and a first line of column names are skipped.
pub fn read(path: &Path) -> Result<Arc<[Duration]>, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::file(path, &source))?;
    parse(&text).map_err(|problem| LoadError::Input(format!("{}: {problem}", path.display())))
}

fn parse(text: &str) -> Result<Arc<[Duration]>, String> {
    let mut offsets: Vec<Duration> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let cell = line.split(',').next().unwrap_or_default().trim();
        if cell.is_empty() || cell.starts_with('#') || (number == 0 && cell.parse::<f64>().is_err()) {
            continue;
        }
        let at = cell.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let at = at.ok_or_else(|| format!("line {}: {cell:?} is no number of seconds", number + 1))?;
        if offsets.last().is_some_and(|last| *last > at) {
            return Err(format!("line {}: goes back in time; sort the file", number + 1));
        }
        if offsets.len() == MAX_OFFSETS {
            return Err(format!("has more than {MAX_OFFSETS} arrivals; split it"));
        }
        offsets.push(at);
    }
    if offsets.is_empty() {
        return Err("has no arrivals; each line needs seconds since the start".to_owned());
    }
    Ok(offsets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_offsets_with_names_comments_and_further_columns() {
        let trace = parse("seconds,tokens\n# recorded\n0,12\n\n0.5,7\n0.5,1\n").unwrap();
        assert_eq!(trace.as_ref(), [0, 500, 500].map(Duration::from_millis));
    }

    #[test]
    fn names_the_line_that_is_wrong() {
        assert!(parse("0\nsoon\n").unwrap_err().contains("line 2"));
        assert!(parse("0\n-1\n").unwrap_err().contains("line 2"));
        assert!(parse("0\n1e300\n").unwrap_err().contains("line 2"));
        assert!(parse("2\n1\n").unwrap_err().contains("back in time"));
        assert!(parse("# nothing\n").is_err());
    }
}
