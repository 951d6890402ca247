//! A route table in a file, read again when the file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use modelway_api::route_table::RouteTableSpec;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::routes::{Part, RouteState};

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// A table of 16 arms with 256 endpoints each fits many times.
const MOST_BYTES: u64 = 4 << 20;

/// Why a file is no route table.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the route table {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large to be one.
    #[error("the route table {path} has {bytes} bytes, at most {MOST_BYTES} are read")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is not a document of that form.
    #[error("{path} is not a route table: {reason}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
}

/// What tells two versions of a file apart.
type Mark = (Option<SystemTime>, u64);

/// Reads the file now and at each change, until the token is cancelled.
pub async fn follow(path: PathBuf, state: Arc<RouteState>, token: CancellationToken) {
    let mut seen = None;
    loop {
        let found = mark(&path).await;
        if found.is_none() || found != seen {
            match read(&path).await {
                Ok(document) => {
                    // A refusal is shown on the admin port; the file is tried again when it changes.
                    let _ = state.offer("", &document);
                }
                Err(error) => state.set_problem(Part::Table, Some(error.to_string())),
            }
            seen = found;
        }
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

async fn mark(path: &Path) -> Option<Mark> {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

async fn read(path: &Path) -> Result<RouteTableSpec, FileError> {
    let unreadable = |source| FileError::Read { path: path.to_owned(), source };
    let bytes = tokio::fs::metadata(path).await.map_err(unreadable)?.len();
    if bytes > MOST_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned(), bytes });
    }
    let text = tokio::fs::read_to_string(path).await.map_err(unreadable)?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<RouteTableSpec, FileError> {
    let bad = |reason: String| FileError::Parse { path: path.to_owned(), reason };
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        serde_json::from_str(text).map_err(|error| bad(error.to_string()))
    } else {
        serde_saphyr::from_str(text).map_err(|error| bad(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_yaml_and_json_and_says_what_is_wrong() {
        let yaml = "version: 1\ngeneration: 2\ninference: digits\nepoch: 1\nsalt: s\narms:\n- name: v1\n  weight: 1\n";
        assert_eq!(parse(Path::new("t.yaml"), yaml).unwrap().generation, 2);
        let json = r#"{"version":1,"generation":3,"inference":"digits","epoch":1,"salt":"s","arms":[]}"#;
        assert_eq!(parse(Path::new("t.json"), json).unwrap().generation, 3);
        let error = parse(Path::new("t.yaml"), "version: x").unwrap_err().to_string();
        assert!(error.starts_with("t.yaml is not a route table: "), "{error}");
    }
}
