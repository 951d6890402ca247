//! What the platform tells a shim.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything a shim needs to run one container once. It travels over a pipe, so that secrets never touch the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShimSpec {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(String, String)>,
    pub working_dir: PathBuf,
    pub log_file: PathBuf,
    /// Bytes after which the log file is moved aside (one older file is kept).
    pub log_limit: u64,
    /// Where the [`super::ExitRecord`] goes.
    pub exit_file: PathBuf,
    #[serde(default)]
    pub limits: ShimLimits,
}

/// What holds the container and all that it starts within its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimLimits {
    /// The files through which a process joins the control groups of the container.
    #[serde(default)]
    pub groups: Vec<PathBuf>,
    /// The cores that it may use; none for all.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Private memory of each process.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// The file in which the kernel counts the processes of this container that it killed for want of memory.
    #[serde(default)]
    pub kill_count: Option<PathBuf>,
}

/// What the platform may ask of a running shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// SIGTERM to the container's first process.
    Terminate,
    /// SIGKILL to everything in the container.
    Kill,
}

impl Order {
    /// The line that carries the order.
    pub fn line(self) -> &'static [u8] {
        match self {
            Self::Terminate => b"term\n",
            Self::Kill => b"kill\n",
        }
    }

    /// The orders in `bytes`; unknown lines are ignored, so that an older shim survives a newer platform.
    pub fn parse(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.split(|byte| *byte == b'\n').filter_map(|line| match line {
            b"term" => Some(Self::Terminate),
            b"kill" => Some(Self::Kill),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_orders_and_ignores_unknown_ones() {
        let lines = [Order::Terminate.line(), b"dance\n", Order::Kill.line()].concat();
        assert_eq!(Order::parse(&lines).collect::<Vec<_>>(), [Order::Terminate, Order::Kill]);
    }
}
