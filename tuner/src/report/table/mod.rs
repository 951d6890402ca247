//! The report for a terminal.

mod columns;
mod page;

pub use page::page;
