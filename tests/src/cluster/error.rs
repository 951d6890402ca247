//! Why there is no cluster, or why it does not do what a test asks.

use std::{io, path::PathBuf};

/// What went wrong with a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A test skips with this; it names what to install.
    #[error("no cluster here: this machine lacks {0}")]
    Missing(String),
    #[error("cannot start the cluster's guard {guard}: {source}")]
    Guard { guard: PathBuf, source: io::Error },
    #[error("the cluster does not start: {0}")]
    Start(String),
    #[error("the cluster's guard ended without an answer; run it by hand to see why: {0} LEVEL")]
    Silent(PathBuf),
    #[error("the cluster's file {path} cannot be used: {source}")]
    State { path: PathBuf, source: io::Error },
    #[error("the cluster's kubeconfig does not make a client: {0}")]
    Client(String),
    #[error("the API server refuses {what}: {source}")]
    Api { what: String, source: Box<kube::Error> },
    #[error("`{command}` does not start: {source}")]
    Spawn { command: String, source: io::Error },
    #[error("`{command}` fails: {text}")]
    Command { command: String, text: String },
    #[error("`{0}` does not end within its time")]
    Endless(String),
    #[error("{component} is not running any more, says {source}; see the logs")]
    Signal { component: &'static str, source: io::Error },
    #[error("{0} does not get ready again; see the logs")]
    NotReady(&'static str),
    #[error("only level node has {0}")]
    NotHere(&'static str),
}
