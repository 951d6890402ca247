//! How a container ended, on disk: it outlives the shim and the platform.

use std::io::{self, Write};
use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The end of one run of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// As a shell would report it: 128 + the signal for a killed process.
    pub exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub started_at: String,
    pub finished_at: String,
    /// Why the command could not be started at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error: Option<String>,
    /// The container was killed because the platform went away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub platform_lost: bool,
    /// The kernel killed it because memory ran out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom_killed: bool,
}

impl ExitRecord {
    /// The record of a run whose end nobody saw.
    pub fn lost(started_at: Timestamp, finished_at: Timestamp) -> Self {
        Self {
            exit_code: 137,
            signal: Some(9),
            started_at: started_at.to_string(),
            finished_at: finished_at.to_string(),
            start_error: None,
            platform_lost: true,
            oom_killed: false,
        }
    }

    pub fn read(path: &Path) -> io::Result<Self> {
        serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::from)
    }

    /// Writes beside and renames: a reader sees all of it or nothing.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(beside, path)
    }

    pub fn started(&self) -> Option<Timestamp> {
        self.started_at.parse().ok()
    }

    pub fn finished(&self) -> Option<Timestamp> {
        self.finished_at.parse().ok()
    }
}

/// The time now, as records carry it.
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exit.json");
        let record = ExitRecord::lost(now(), now());
        record.write(&path).unwrap();
        assert_eq!(ExitRecord::read(&path).unwrap(), record);
        assert!(record.finished().is_some());
    }
}
