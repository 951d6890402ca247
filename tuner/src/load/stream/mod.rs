//! Answers that come token by token (`OpenAI`'s streaming).

mod events;
mod tokens;

pub use tokens::{TokenReader, TokenTimes};
