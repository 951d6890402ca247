//! Honest stress tests: a load generator that measures itself, and the search for the highest rate that meets
//! objectives.

pub mod ask;
pub mod experiment;
pub mod file;
pub mod journal;
pub mod load;
pub mod local;
pub mod record;
pub mod replay;
pub mod report;
