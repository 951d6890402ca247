//! The report as Markdown.

mod cell;
mod document;

pub use document::document;
