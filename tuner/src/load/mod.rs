//! The load generator.
//!
//! The plan of a run (`arrivals`, `schedule`, `body`, `http::RequestPlan`) is a function of options and seed. `engine`
//! carries it out with sockets. `statistics` counts, `report` and `verdict` judge, `search` finds the highest rate that
//! meets constraints; none of these looks at a clock.

pub mod arrivals;
pub mod body;
pub mod constraint;
pub mod drive;
pub mod engine;
mod error;
mod fetch;
pub mod hdr_log;
pub mod http;
pub(crate) mod once;
pub mod outcome;
pub mod protocols;
pub mod report;
pub mod schedule;
pub mod search;
pub mod statistics;
pub mod stream;
mod target;
pub mod trace;
pub mod units;
pub mod verdict;

pub use arrivals::Pattern;
pub use constraint::Constraint;
pub use engine::{Control, Finished, Live, Options, run};
pub use error::LoadError;
pub use report::{Report, report};
pub use schedule::Source;
pub use target::Target;
