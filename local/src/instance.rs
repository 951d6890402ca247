//! The running platform of a data folder, as other processes find it: `instance.json`, written when it is ready.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data_dir::{DataDirError, write_atomically};

const FILE: &str = "instance.json";

/// Where a running platform is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    pub pid: u32,
    /// Start time of the process in clock ticks after boot: a reused pid is told apart.
    pub start_ticks: u64,
    pub modelway: String,
    pub api_port: u16,
    pub registry_port: u16,
    pub kubeconfig: PathBuf,
}

impl Instance {
    /// Describes this process.
    pub fn of_this_process(api_port: u16, registry_port: u16, kubeconfig: PathBuf) -> Self {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).unwrap_or_default();
        Self { pid, start_ticks, modelway: env!("CARGO_PKG_VERSION").to_owned(), api_port, registry_port, kubeconfig }
    }

    /// Tells other processes.
    pub fn publish(&self, data: &Path) -> Result<(), DataDirError> {
        let text = serde_json::to_vec(self).expect("plain fields");
        write_atomically(&data.join(FILE), &text)
            .map_err(|source| DataDirError::NotWritable { path: data.to_owned(), source })
    }

    /// The platform that runs on `data` now, if any.
    pub fn find(data: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(data.join(FILE)).ok()?;
        let instance: Self = serde_json::from_str(&text).ok()?;
        instance.is_alive().then_some(instance)
    }

    /// Whether the process that wrote this still runs.
    pub fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Takes the description away again.
    pub fn withdraw(data: &Path) {
        // Absent is what is wanted.
        let _absent = std::fs::remove_file(data.join(FILE));
    }
}

/// Field 22 of `/proc/PID/stat` (proc(5)); the name in field 2 may hold anything but ends at the last parenthesis.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace();
    // A zombie still has its line, but it runs no more.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_itself_and_not_a_reused_pid() {
        let folder = tempfile::tempdir().unwrap();
        let mut instance = Instance::of_this_process(1, 2, folder.path().join("kubeconfig"));
        instance.publish(folder.path()).unwrap();
        assert_eq!(Instance::find(folder.path()), Some(instance.clone()));
        instance.start_ticks += 1;
        instance.publish(folder.path()).unwrap();
        assert_eq!(Instance::find(folder.path()), None);
    }
}
