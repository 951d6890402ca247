//! The part with sockets and clocks: one event loop a thread, nothing shared between them while they run.

mod answers;
mod connection;
mod deadlines;
mod exchange;
mod poller;
mod run;
mod worker;

pub use run::{Control, Finished, Live, Options, raise_open_files, run};
pub use worker::Work;
