//! Known answers and laws of the API machinery.
#![expect(clippy::unwrap_used, reason = "tests")]

mod apply;
mod apply_laws;
mod cel;
mod hostile;
mod objects;
mod patches;
mod samples;
mod structure;
