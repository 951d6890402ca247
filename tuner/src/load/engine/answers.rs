//! Reading the body of an answer, as far as something is to be known of it.

use crate::load::outcome::{Expectation, Failure};
use crate::load::stream::{TokenReader, TokenTimes};

/// Bytes of a body that a text is looked for in.
const MAX_SEARCHED: usize = 1 << 20;

/// What is read of bodies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// Their length.
    Length,
    /// Their text, to look for something in it.
    Text,
    /// Tokens of `OpenAI`'s protocol.
    Tokens,
}

/// Reads one body after the other.
#[derive(Debug)]
pub struct BodyReader {
    length: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Length,
    Text(Vec<u8>),
    Tokens(Box<TokenReader>),
}

impl BodyReader {
    pub fn new(reading: Reading) -> Self {
        let kind = match reading {
            Reading::Length => Kind::Length,
            Reading::Text => Kind::Text(Vec::new()),
            Reading::Tokens => Kind::Tokens(Box::default()),
        };
        Self { length: 0, kind }
    }

    /// Ready for another body.
    pub fn reset(&mut self) {
        self.length = 0;
        match &mut self.kind {
            Kind::Length => {}
            Kind::Text(text) => text.clear(),
            Kind::Tokens(reader) => reader.reset(),
        }
    }

    /// Takes bytes that came at `now`.
    pub fn feed(&mut self, bytes: &[u8], now: u64) {
        self.length += bytes.len() as u64;
        match &mut self.kind {
            Kind::Length => {}
            Kind::Text(text) => text.extend_from_slice(&bytes[..bytes.len().min(MAX_SEARCHED - text.len())]),
            Kind::Tokens(reader) => reader.feed(bytes, now),
        }
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether a token came.
    pub fn has_token(&self) -> bool {
        matches!(&self.kind, Kind::Tokens(reader) if reader.has_token())
    }

    /// The body is complete: its tokens, or what is wrong with it.
    pub fn judge(&mut self, expectation: &Expectation, now: u64) -> Result<Option<&TokenTimes>, (Failure, String)> {
        match &mut self.kind {
            Kind::Length => Ok(None),
            Kind::Text(text) => match expectation.judge_body(text) {
                Ok(()) => Ok(None),
                Err(failure) => Err((failure, format!("the body has not the expected text: {}", beginning(text)))),
            },
            Kind::Tokens(reader) => match reader.finish(now) {
                Ok(times) => Ok(Some(times)),
                Err(problem) => Err((Failure::Body, problem.to_owned())),
            },
        }
    }
}

/// The first characters of a body, printable.
fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(200)]);
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
