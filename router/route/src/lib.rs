//! Pure routing decisions: compile a route table, match, split, hold or fail over, pick, retry, eject, check framing.
//!
//! Nothing here does I/O or reads a clock: time is a [`std::time::Duration`] since an origin that the caller chooses,
//! randomness is an argument.

pub mod arm;
pub mod ejection;
pub mod framing;
pub mod key;
pub mod pace;
pub mod pick;
pub mod replace;
pub mod request;
pub mod request_id;
pub mod retry;
pub mod split;
pub mod table;
pub mod unit;

pub use key::RouteKey;
pub use request::RequestView;
pub use split::{ArmIndex, Order};
pub use table::{CompileError, Table, compile};
