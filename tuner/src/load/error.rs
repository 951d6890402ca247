//! Why a run could not be made.

use std::path::Path;

/// Errors before and around a run; failures of single requests are counted, not raised.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Options, or a file that they name, make no sense.
    #[error("{0}")]
    Input(String),
    /// Nobody listens there.
    #[error("cannot reach {target}: {problem}; is the server running?")]
    Unreachable { target: String, problem: String },
    /// The server answered something that does not help.
    #[error("{target} answered {answer}, where {wanted} was needed")]
    Refused { target: String, answer: String, wanted: &'static str },
    /// This machine did not give what the generator needs.
    #[error("the generator cannot {what}: {source}")]
    Machine { what: &'static str, source: std::io::Error },
}

impl LoadError {
    /// A file that cannot be read or written.
    pub fn file(path: &Path, source: &std::io::Error) -> Self {
        Self::Input(format!("{}: {source}", path.display()))
    }

    pub(super) fn machine(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Machine { what, source }
    }
}
