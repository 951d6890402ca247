//! One experiment, from its first trial to its answer: which trial is started next, when it is over, and what came of it.
//!
//! A pure function of the question, the attempts so far and what they used: whoever carries it out may be killed at any
//! moment, and goes on with the same trial.

mod attempt;
mod end;
mod expected;
mod next;
mod question;
mod why;

pub use attempt::{Attempt, Missed, Purpose};
pub use end::{End, Verdict, verdict};
pub use expected::expected;
pub use next::{Next, next};
pub use question::{Algorithm, Confirm, Question, QuestionError};
pub use why::Why;
