//! Where the node keeps its files below the data folder.

use std::path::{Path, PathBuf};

/// The folders of one node.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    pub fn new(data_dir: &Path) -> Self {
        Self { root: data_dir.to_owned() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// The folder of one run of a container: exit record and termination message.
    pub fn run(&self, uid: &str, container: &str, restart: u32) -> PathBuf {
        self.runs(uid, container).join(restart.to_string())
    }

    pub fn runs(&self, uid: &str, container: &str) -> PathBuf {
        self.pod(uid).join("containers").join(container)
    }

    pub fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(name)
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn pod_logs(&self, namespace: &str, pod: &str, uid: &str) -> PathBuf {
        self.logs().join(namespace).join(format!("{pod}-{uid}"))
    }

    pub fn claims(&self) -> PathBuf {
        self.root.join("volumes")
    }

    pub fn claim(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.claims().join(namespace).join(format!("{name}-{uid}"))
    }

    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }
}

/// The name of a run's log file.
pub fn log_name(restart: u32) -> String {
    format!("{restart}.log")
}

/// The name of a run's exit record.
pub const EXIT_FILE: &str = "exit.json";
