//! What the guard tells of a started cluster.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Error;

/// `facts.json` of a state folder.
#[derive(Debug, Deserialize)]
pub struct Facts {
    /// Of the API server and, at level node, of node 1 and the registries.
    pub address: String,
    /// This machine's end of the cable to the nodes.
    pub host_address: String,
    /// The folder of `kubectl`.
    pub kube: PathBuf,
    /// The folder of `ctr`.
    pub node: PathBuf,
    /// The folder of `mkimage`.
    pub mkimage: PathBuf,
    /// Where the logs go when they are kept.
    pub kept_logs: PathBuf,
}

impl Facts {
    /// Reads them.
    pub fn read(state: &Path) -> Result<Self, Error> {
        let path = state.join("facts.json");
        let text = std::fs::read_to_string(&path).map_err(|source| Error::State { path: path.clone(), source })?;
        serde_json::from_str(&text).map_err(|error| Error::State { path, source: error.into() })
    }
}
