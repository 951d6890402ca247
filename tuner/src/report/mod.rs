//! The report of an experiment: what to run, what it gains, and why to believe it.
//!
//! [`report`] makes it from a [`Record`](crate::record::Record), once; every form of it is a function of that one
//! document. The same record gives the same bytes.

mod build;
mod chart;
pub mod document;
mod figures;
mod grid;
mod grids;
mod html;
mod markdown;
mod quantity;
mod table;
mod visible;

pub use build::report;
pub use document::Report;
pub use visible::visible;

impl Report {
    /// One file without scripts or links to elsewhere.
    pub fn html(&self) -> String {
        visible::visible(&html::page(self)).into_owned()
    }

    /// For a pull request or a wiki.
    pub fn markdown(&self) -> String {
        visible::visible(&markdown::document(self)).into_owned()
    }

    /// For a terminal of this width, without colours.
    pub fn table(&self, width: usize) -> String {
        visible::visible(&table::page(self, width)).into_owned()
    }

    /// The document itself.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}
