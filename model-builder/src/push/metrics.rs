//! `metrics.json` in the root of the output: numbers that the job reports about its model.

use std::io::Read;

use serde_json::{Map, Value};

use crate::source::{SourceError, Tree};

const FILE: &str = "metrics.json";
/// A larger file is not a summary.
const MAX_BYTES: u64 = 64 << 10;
const MAX_METRICS: usize = 64;
const MAX_NAME: usize = 64;

/// The numbers of `metrics.json`; other values are passed over, and a file that is not an object of values has none.
pub(super) fn read(tree: &Tree) -> Result<Map<String, Value>, SourceError> {
    let Some((entry, stamp)) = tree.files().find(|(entry, _)| entry.path == FILE) else { return Ok(Map::new()) };
    let mut content = Vec::new();
    let file = tree.open(&entry.path, stamp)?;
    let read = |source| SourceError::Read { path: FILE.to_owned(), source };
    file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(read)?;
    Ok(numbers(&content))
}

fn numbers(content: &[u8]) -> Map<String, Value> {
    let parsed = if content.len() as u64 > MAX_BYTES { None } else { serde_json::from_slice(content).ok() };
    let Some(Value::Object(object)) = parsed else {
        tracing::warn!("{FILE} is not a JSON object of at most {MAX_BYTES} bytes; its metrics are left out");
        return Map::new();
    };
    let is_metric = |name: &String, value: &Value| value.is_number() && name.len() <= MAX_NAME;
    object.into_iter().filter(|(name, value)| is_metric(name, value)).take(MAX_METRICS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_numbers_only() {
        let found = numbers(br#"{"accuracy": 0.98, "name": "x", "nested": {"a": 1}, "epochs": 3}"#);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["accuracy", "epochs"]);
        assert!(numbers(b"[1]").is_empty() && numbers(b"nan").is_empty() && numbers(&vec![b' '; 70_000]).is_empty());
    }
}
