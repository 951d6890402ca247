//! The three patch languages of the API.

mod json;
mod merge;
mod strategic;
mod strategic_list;

pub use json::json;
pub use merge::merge;
pub use strategic::strategic;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch document itself is wrong (HTTP 400).
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object (HTTP 422), a failed `test` too.
    #[error("{0}")]
    Unprocessable(String),
}
