//! Trials of a service that runs on this machine, or behind a URL.
//!
//! [`trial()`] carries one out. Processes are started through [`Launcher`], which belongs to the program: it knows how to
//! leave nothing behind.

mod answer;
pub mod cores;
mod exit;
pub mod machine;
mod measure;
pub mod metrics;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

pub use exit::Exit;
pub use trial::{Given, Phase, Taken, Watch, trial};

/// A command with everything looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Program and arguments; at least the program.
    pub command: Vec<String>,
    /// Variables on top of the program's own.
    pub environment: Vec<(String, String)>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Cores that it may use; none for all.
    pub cores: Vec<usize>,
    /// Private memory of each of its processes.
    pub memory: Option<u64>,
}

/// Starts processes that end with this one, whatever happens to it.
pub trait Launcher {
    /// Starts a command.
    fn start(&mut self, order: &Order) -> Result<Box<dyn Process>, String>;
}

/// A command that was started, with all that it started.
pub trait Process {
    /// How it ended, once it did and nothing of it is left.
    fn ended(&mut self) -> Option<Exit>;

    /// Ends it: politely first, after `grace` by force. Returns when nothing of it is left.
    fn stop(&mut self, grace: Duration) -> Exit;

    /// The last lines that it wrote.
    fn log(&self) -> Vec<String>;
}
