//! Ask and tell: another program measures, and asks here what to try next. One JSON document a line, both ways.

mod protocol;
mod question;
mod session;

pub use protocol::{Answer, Request};
pub use question::QuestionFile;
pub use session::Session;
