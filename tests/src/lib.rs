//! Cross-component flows and the API conformance module

pub mod conformance;
pub mod flows;
