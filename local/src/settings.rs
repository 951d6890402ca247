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
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub api_port: u16,
    pub registry_port: u16,
    /// Second byte of the platform's addresses `127.B.0.0/16`: pods in the lower half, services in the upper.
    pub loopback_block: u8,
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
        let settings = Settings { api_port: 1, registry_port: 2, loopback_block: 77 };
        settings.save(folder.path()).unwrap();
        assert_eq!(Settings::load(folder.path()).unwrap(), Some(settings));
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Settings::load(folder.path()).unwrap_err().to_string().contains("settings.json"));
    }
}
