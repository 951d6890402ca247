//! Pure API machinery: structural schemas, CEL, patches, managed fields.
//!
//! Order of a write in the server: patch or decode (or [`apply::apply`] for a server-side apply), [`Schema::prune`],
//! [`Schema::default`], [`Schema::validate`], and for all but server-side apply [`apply::track_update`].

pub mod apply;
mod cel;
mod checks;
mod default;
mod depth;
mod error;
mod format;
mod node;
mod parse;
pub mod patch;
mod path;
mod prune;
mod schema;
mod validate;

pub use error::{FieldError, FieldErrorKind, SchemaError};
pub use schema::Schema;
