//! Reading a training output that nobody vouches for: a walk that cannot leave the folder, and checks of what is there.

pub(crate) mod beneath;
pub(crate) mod format;
mod names;
mod onnx;
mod safetensors;
mod secrets;
pub(crate) mod walk;

use std::io;

pub(crate) use walk::{Entry, FileStamp, Tree};

/// Files that cannot be published. Paths are relative to the source folder.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder itself cannot be read.
    #[error("cannot read the training output in {path}: {source}")]
    Root {
        /// The source folder.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing to publish.
    #[error("the training output in {path} has no files; did the job write its model there?")]
    Empty {
        /// The source folder.
        path: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A symbolic link.
    #[error("{path} is a symbolic link to {target}; put the file itself there")]
    Symlink {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
    },
    /// Neither file nor folder.
    #[error("{path} is a {kind}; only files and folders can be published")]
    NotAFile {
        /// The entry.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A name that images or other systems cannot hold.
    #[error("{path:?} cannot be published: {why}")]
    BadName {
        /// The entry; bytes that are not UTF-8 are replaced.
        path: String,
        /// The rule.
        why: &'static str,
    },
    /// A file that looks like a secret. The value is never shown.
    #[error("{path} looks like a secret ({rule}); remove it from the training output")]
    Secret {
        /// The file.
        path: String,
        /// The rule that caught it.
        rule: &'static str,
    },
    /// A model file that is damaged.
    #[error("{path} is not a whole {format} file: {why}")]
    BadModel {
        /// The file.
        path: String,
        /// Its format by name.
        format: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A file that runs code when it is loaded, and the policy says no.
    #[error("{path} is a pickle, which runs code when it is loaded; save the weights as safetensors or ONNX")]
    Pickle {
        /// The file.
        path: String,
    },
    /// Something wrote into the output while it was packed.
    #[error("{path} changed while it was being packed; publish after the job has finished writing")]
    Changed {
        /// The file.
        path: String,
    },
    /// More than can be published.
    #[error("the training output is too large: {why}")]
    TooMuch {
        /// The limit.
        why: String,
    },
}
