//! The platform on one machine: API server, workload controllers, process node and OCI registry in one process.
//!
//! [`Platform::start`] takes a data folder and gives back a running platform; everything that it started ends with
//! [`Platform::stop`], and whatever a killed predecessor left behind is swept first.

pub mod data_dir;
mod images;
pub mod instance;
mod loopback;
mod platform;
mod pod_logs;
pub mod ports;
pub mod settings;

pub use data_dir::{DataDir, DataDirError};
pub use platform::{Platform, PlatformError, PlatformOptions};
pub use settings::Settings;
