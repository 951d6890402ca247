//! Deterministic packing: which file goes into which layer, and the exact bytes of each layer.

pub(crate) mod layers;
pub(crate) mod stream;
mod tar;

use crate::source::SourceError;

/// Packing that failed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The files are the reason.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Whoever should take the bytes is gone.
    #[error("packing was stopped")]
    Stopped,
}
