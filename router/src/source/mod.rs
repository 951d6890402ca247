//! Where the configuration comes from.

pub mod file;
pub mod kube;
pub mod slices;
