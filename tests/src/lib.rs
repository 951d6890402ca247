//! Cross-component flows, the API conformance module, and real clusters to run them on

pub mod cluster;
pub mod conformance;
pub mod flows;
