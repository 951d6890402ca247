//! When the tokens of an answer came.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::events::Events;

/// Bytes of an answer that is not a stream.
const MAX_DOCUMENT: usize = 16 << 20;
/// Gaps that are kept of one answer.
const MAX_GAPS: usize = 1 << 20;

/// Times of one answer, in nanoseconds since the start of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenTimes {
    /// When the first token that is not empty came.
    pub first: Option<u64>,
    /// When the last one came.
    pub last: u64,
    /// Between pieces with tokens.
    pub gaps: Vec<u64>,
    /// Pieces with tokens.
    pub pieces: u64,
    /// Tokens as the server counts them.
    pub counted: Option<u64>,
    /// Tokens of the prompt, as the server counts them.
    pub prompt: Option<u64>,
}

impl TokenTimes {
    /// Tokens of the answer: the server's count, else one a piece.
    pub fn tokens(&self) -> u64 {
        self.counted.unwrap_or(self.pieces)
    }

    /// Time per output token after the first, in nanoseconds; none for a single token.
    pub fn per_token(&self) -> Option<u64> {
        let after_first = self.last.checked_sub(self.first?)?;
        after_first.checked_div(self.tokens().saturating_sub(1))
    }
}

/// Reads one answer of `/v1/chat/completions` or `/v1/completions`, streamed or whole.
#[derive(Debug, Default)]
pub struct TokenReader {
    events: Events,
    document: Vec<u8>,
    kind: Kind,
    times: TokenTimes,
    failed: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Kind {
    #[default]
    Unknown,
    Stream,
    Document,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "reasoning")]
    reasoning_content: Option<Cow<'a, str>>,
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Usage {
    completion_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

impl Choice<'_> {
    fn has_token(&self) -> bool {
        let deltas = self.delta.iter().chain(&self.message);
        deltas.into_iter().any(Delta::has_token) || self.text.as_deref().is_some_and(|text| !text.is_empty())
    }
}

impl Delta<'_> {
    fn has_token(&self) -> bool {
        let texts = [&self.content, &self.reasoning_content];
        texts.into_iter().flatten().any(|text| !text.is_empty())
            || self.tool_calls.iter().any(|calls| !calls.is_empty())
    }
}

impl TokenReader {
    /// Ready for another answer.
    pub fn reset(&mut self) {
        self.events.reset();
        self.document.clear();
        self.times.gaps.clear();
        let gaps = std::mem::take(&mut self.times.gaps);
        self.times = TokenTimes { gaps, ..TokenTimes::default() };
        (self.kind, self.failed) = (Kind::Unknown, None);
    }

    /// Whether a token came.
    pub fn has_token(&self) -> bool {
        self.times.first.is_some()
    }

    /// Takes bytes of the body that came at `now`.
    pub fn feed(&mut self, bytes: &[u8], now: u64) {
        if self.kind == Kind::Unknown {
            let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            self.kind = if *first == b'{' { Kind::Document } else { Kind::Stream };
        }
        if self.kind == Kind::Document {
            if self.document.len() + bytes.len() > MAX_DOCUMENT {
                self.failed = Some("the answer is too long");
            } else {
                self.document.extend_from_slice(bytes);
            }
            return;
        }
        let (times, failed) = (&mut self.times, &mut self.failed);
        if self.events.feed(bytes, &mut |data| read_event(data, now, times, failed)).is_err() {
            self.failed = Some("an event of the stream is too long");
        }
    }

    /// The body is complete; what is wrong with it, if anything.
    pub fn finish(&mut self, now: u64) -> Result<&TokenTimes, &'static str> {
        if self.kind == Kind::Document {
            // Not a stream: all tokens came at the end, so that there is nothing between them.
            read_event(&self.document, now, &mut self.times, &mut self.failed);
        }
        match self.failed {
            Some(problem) => Err(problem),
            None if self.times.first.is_none() => Err("the answer has no tokens"),
            None => Ok(&self.times),
        }
    }
}

fn read_event(data: &[u8], now: u64, times: &mut TokenTimes, failed: &mut Option<&'static str>) {
    if data == b"[DONE]" {
        return;
    }
    let Ok(piece) = serde_json::from_slice::<Piece<'_>>(data) else {
        *failed = Some("a piece of the answer is not JSON of this protocol");
        return;
    };
    if piece.error.is_some() {
        *failed = Some("the stream reports an error");
    }
    if let Some(usage) = piece.usage {
        times.counted = usage.completion_tokens.or(times.counted);
        times.prompt = usage.prompt_tokens.or(times.prompt);
    }
    if piece.choices.iter().any(Choice::has_token) {
        times.note(now);
    }
}

impl TokenTimes {
    fn note(&mut self, now: u64) {
        self.pieces += 1;
        if self.first.is_none() {
            self.first = Some(now);
        } else if self.gaps.len() < MAX_GAPS {
            self.gaps.push(now.saturating_sub(self.last));
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(text: &str) -> Vec<u8> {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text:?}}}}}]}}\n\n").into_bytes()
    }

    #[test]
    fn the_first_token_is_the_first_that_is_not_empty() {
        let mut reader = TokenReader::default();
        reader.feed(b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", 10);
        for (text, at) in [("Hel", 20), ("lo", 27), ("!", 40)] {
            reader.feed(&chat(text), at);
        }
        reader.feed(b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n", 41);
        reader.feed(b"data: [DONE]\n\n", 42);
        let times = reader.finish(50).unwrap();
        assert_eq!((times.first, times.last, times.gaps.as_slice()), (Some(20), 40, &[7, 13][..]));
        assert_eq!((times.tokens(), times.prompt, times.per_token()), (3, Some(5), Some(10)));
    }

    #[test]
    fn completions_and_reasoning_are_tokens_too() {
        let mut reader = TokenReader::default();
        reader.feed(b"data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\",\"content\":null}}]}\n\n", 5);
        let times = reader.finish(6).unwrap();
        assert_eq!((times.pieces, times.gaps.as_slice()), (2, &[0][..]));
    }

    #[test]
    fn a_whole_document_has_no_gaps() {
        let mut reader = TokenReader::default();
        reader.feed(b"{\"choices\":[{\"message\":{\"content\":\"hi\"}}],", 5);
        reader.feed(b"\"usage\":{\"completion_tokens\":7}}", 9);
        let times = reader.finish(9).unwrap();
        assert_eq!((times.first, times.tokens(), times.gaps.len()), (Some(9), 7, 0));
    }

    #[test]
    fn errors_and_nonsense_in_a_stream_are_failures() {
        for text in
            ["data: {\"error\":{\"message\":\"x\"}}\n\n", "data: nonsense\n\n", "data: [DONE]\n\n", "", "{\"choices\":"]
        {
            let mut reader = TokenReader::default();
            reader.feed(text.as_bytes(), 1);
            assert!(reader.finish(2).is_err(), "{text}");
        }
    }

    #[test]
    fn a_reader_forgets_the_answer_before() {
        let mut reader = TokenReader::default();
        reader.feed(&chat("a"), 1);
        reader.reset();
        assert!(reader.finish(1).is_err());
    }
}
