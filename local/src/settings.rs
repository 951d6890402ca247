//! What a platform keeps from its first start on: ports and its block of loopback addresses.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data_dir::{DataDirError, write_atomically};

/// Default port of the API.
pub const API_PORT: u16 = 6553;
/// Default port of the registry.
pub const REGISTRY_PORT: u16 = 5553;
const FILE: &str = "settings.json";

/// Kept in `settings.json` of the data folder.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub api_port: u16,
    pub registry_port: u16,
    /// Second byte of the platform's addresses `127.B.0.0/16`: pods in the lower half, services in the upper.
    pub loopback_block: u8,
    /// Ports that the registry had before: images are named by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_registry_ports: Vec<u16>,
}

impl Settings {
    /// The stored settings, `None` before the first start.
    pub fn load(data: &Path) -> Result<Option<Self>, DataDirError> {
        let Ok(text) = std::fs::read_to_string(data.join(FILE)) else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|problem| DataDirError::Damaged {
            path: data.to_owned(),
            file: FILE,
            problem: problem.to_string(),
        })
    }

    /// What to keep when the platform starts with these ports and this block.
    pub fn next(stored: Option<&Self>, api_port: u16, registry_port: u16, loopback_block: u8) -> Self {
        let mut former = stored.map(|stored| stored.former_registry_ports.clone()).unwrap_or_default();
        former.extend(stored.map(|stored| stored.registry_port));
        former.retain(|port| *port != registry_port);
        former.sort_unstable();
        former.dedup();
        Self { api_port, registry_port, loopback_block, former_registry_ports: former }
    }

    /// Stores the settings.
    pub fn save(&self, data: &Path) -> Result<(), DataDirError> {
        let text = serde_json::to_vec(self).expect("three plain fields");
        write_atomically(&data.join(FILE), &text)
            .map_err(|source| DataDirError::NotWritable { path: data.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::load(folder.path()).unwrap(), None);
        let settings = Settings::next(None, 1, 2, 77);
        settings.save(folder.path()).unwrap();
        assert_eq!(Settings::load(folder.path()).unwrap(), Some(settings));
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Settings::load(folder.path()).unwrap_err().to_string().contains("settings.json"));
    }

    #[test]
    fn former_registry_ports_are_remembered_once_each() {
        let first = Settings::next(None, 1, 5000, 77);
        assert_eq!(first.former_registry_ports, Vec::<u16>::new());
        let second = Settings::next(Some(&first), 1, 6000, 77);
        assert_eq!(second.former_registry_ports, [5000]);
        let back = Settings::next(Some(&second), 1, 5000, 77);
        assert_eq!(back.former_registry_ports, [6000]);
        assert_eq!(Settings::next(Some(&back), 1, 5000, 77), back);
    }
}
