//! An incremental parser of answers. Its memory is bounded whatever the server sends.

use std::mem::MaybeUninit;

use super::chunked::Chunked;

/// Bytes that the head of one answer may have.
const MAX_HEAD: usize = 64 << 10;
/// Headers that it may have.
const MAX_HEADERS: usize = 128;
/// Interim answers (100 Continue, 103 Early Hints) before the real one.
const MAX_INTERIM: u8 = 16;

/// The server does not speak HTTP/1.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// What is known after some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// The answer goes on.
    More,
    /// It is complete; `reusable` says whether the connection can carry the next request.
    Done { reusable: bool },
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Head,
    Length { left: u64 },
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// Parses one answer; [`ResponseParser::reset`] makes it ready for the next.
#[derive(Debug)]
pub struct ResponseParser {
    phase: Phase,
    /// A head that came in pieces.
    head: Vec<u8>,
    interim: u8,
    reusable: bool,
    no_body: bool,
    started: bool,
    status: u16,
}

/// What the head says.
struct Head {
    status: u16,
    /// Bytes of the head.
    length: usize,
    phase: Phase,
    reusable: bool,
}

impl ResponseParser {
    /// `no_body`: answers to HEAD.
    pub fn new(no_body: bool) -> Self {
        Self { phase: Phase::Head, head: Vec::new(), interim: 0, reusable: true, no_body, started: false, status: 0 }
    }

    /// Ready for another answer, keeping its buffer.
    pub fn reset(&mut self) {
        self.head.clear();
        (self.phase, self.interim, self.reusable, self.started, self.status) = (Phase::Head, 0, true, false, 0);
    }

    /// Status of the answer; 0 until its head is complete.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether any byte came.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Takes bytes from the connection; `data` gets the body, piece by piece.
    pub fn feed(&mut self, bytes: &[u8], data: &mut impl FnMut(&[u8])) -> Result<Progress, Malformed> {
        self.started |= !bytes.is_empty();
        let mut rest = bytes;
        while matches!(self.phase, Phase::Head) {
            match self.feed_head(rest)? {
                Some(left) => rest = left,
                None => return Ok(Progress::More),
            }
        }
        self.feed_body(rest, data)
    }

    /// The connection ended: complete only when the end of the body is the end of the connection.
    pub fn finish(&mut self) -> Result<Progress, Malformed> {
        match self.phase {
            Phase::UntilClose | Phase::Done => Ok(Progress::Done { reusable: false }),
            Phase::Head => Err(Malformed("the connection ended before the answer did")),
            Phase::Length { .. } | Phase::Chunked(_) => Err(Malformed("the body was cut off")),
        }
    }

    /// The bytes after the head, once it is complete.
    fn feed_head<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        let known = self.head.len();
        let parsed = if known == 0 {
            parse_head(bytes, self.no_body)?
        } else {
            self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD + 1 - known.min(MAX_HEAD))]);
            // An end can only be where new bytes are; looking there alone keeps byte-wise heads linear.
            if has_blank_line(&self.head[known.saturating_sub(3)..]) {
                parse_head(&self.head, self.no_body)?
            } else {
                None
            }
        };
        let Some(head) = parsed else {
            if known == 0 {
                self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD + 1)]);
            }
            return if self.head.len() > MAX_HEAD { Err(Malformed("headers without end")) } else { Ok(None) };
        };
        let rest = &bytes[head.length - known..];
        self.head.clear();
        self.apply(&head)?;
        Ok(Some(rest))
    }

    fn apply(&mut self, head: &Head) -> Result<(), Malformed> {
        if (100..200).contains(&head.status) {
            self.interim += 1;
            let ended = head.status == 101 || self.interim > MAX_INTERIM;
            return if ended { Err(Malformed("interim answers without end")) } else { Ok(()) };
        }
        (self.status, self.phase, self.reusable) = (head.status, head.phase, head.reusable);
        Ok(())
    }

    fn feed_body(&mut self, bytes: &[u8], data: &mut impl FnMut(&[u8])) -> Result<Progress, Malformed> {
        let taken = match &mut self.phase {
            Phase::Head | Phase::Done => 0,
            Phase::UntilClose => {
                data(bytes);
                return Ok(Progress::More);
            }
            Phase::Length { left } => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                data(&bytes[..here]);
                *left -= here as u64;
                here
            }
            Phase::Chunked(chunked) => chunked.feed(bytes, data)?,
        };
        let complete = match &self.phase {
            Phase::Length { left } => *left == 0,
            Phase::Chunked(chunked) => chunked.is_done(),
            Phase::Done => true,
            Phase::Head | Phase::UntilClose => false,
        };
        if !complete {
            return Ok(Progress::More);
        }
        self.phase = Phase::Done;
        // Bytes that nobody asked for: the next answer could not be trusted.
        Ok(Progress::Done { reusable: self.reusable && taken == bytes.len() })
    }
}

fn has_blank_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(4).any(|four| four == b"\r\n\r\n")
}

fn parse_head(bytes: &[u8], no_body: bool) -> Result<Option<Head>, Malformed> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("more than 128 headers")),
        Err(_) => return Err(Malformed("the answer is not HTTP/1.1")),
    };
    if length > MAX_HEAD {
        return Err(Malformed("headers without end"));
    }
    let status = response.code.unwrap_or_default();
    let mut framing = Framing { reusable: response.version == Some(1), ..Framing::default() };
    for header in response.headers.iter() {
        framing.note(header)?;
    }
    let phase = if no_body || status == 204 || status == 304 {
        Phase::Length { left: 0 }
    } else if framing.chunked {
        Phase::Chunked(Chunked::new())
    } else if let Some(left) = framing.length {
        Phase::Length { left }
    } else {
        Phase::UntilClose
    };
    let reusable = framing.reusable && !matches!(phase, Phase::UntilClose);
    Ok(Some(Head { status, length, phase, reusable }))
}

#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    reusable: bool,
}

impl Framing {
    fn note(&mut self, header: &httparse::Header<'_>) -> Result<(), Malformed> {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
            let length: u64 = length.ok_or(Malformed("content-length is no number"))?;
            if self.length.is_some_and(|known| known != length) {
                return Err(Malformed("two different content-lengths"));
            }
            self.length = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            self.chunked = contains(header.value, b"chunked");
        } else if header.name.eq_ignore_ascii_case("connection") {
            if contains(header.value, b"close") {
                self.reusable = false;
            } else if contains(header.value, b"keep-alive") {
                self.reusable = true;
            }
        }
        Ok(())
    }
}

fn contains(value: &[u8], word: &[u8]) -> bool {
    value.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &[u8], step: usize) -> (Result<Progress, Malformed>, u16, Vec<u8>) {
        let (mut parser, mut body) = (ResponseParser::new(false), Vec::new());
        let mut last = Ok(Progress::More);
        for piece in text.chunks(step) {
            last = parser.feed(piece, &mut |data| body.extend_from_slice(data));
            if last != Ok(Progress::More) {
                break;
            }
        }
        (last, parser.status(), body)
    }

    const DONE: Result<Progress, Malformed> = Ok(Progress::Done { reusable: true });

    #[test]
    fn pieces_of_any_size_give_the_same_answer() {
        let texts: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        ];
        for text in texts {
            for step in 1..=text.len() {
                assert_eq!(parse(text, step), (DONE, 200, b"hello".to_vec()), "{step}");
            }
        }
    }

    #[test]
    fn the_end_of_the_connection_ends_only_bodies_without_length() {
        let mut parser = ResponseParser::new(false);
        assert_eq!(parser.feed(b"HTTP/1.1 200 OK\r\n\r\nhel", &mut |_| {}), Ok(Progress::More));
        assert_eq!(parser.finish(), Ok(Progress::Done { reusable: false }));
        parser.reset();
        assert!(!parser.has_started());
        assert_eq!(parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", &mut |_| {}), Ok(Progress::More));
        assert!(parser.finish().is_err());
    }

    #[test]
    fn connections_are_reused_only_when_both_sides_know_where_the_next_answer_begins() {
        let reusable = |text: &str| parse(text.as_bytes(), 1000).0;
        let closed = Ok(Progress::Done { reusable: false });
        assert_eq!(reusable("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n"), closed);
        assert_eq!(reusable("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), closed);
        assert_eq!(reusable("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"), DONE);
        assert_eq!(reusable("HTTP/1.1 204 No Content\r\n\r\n"), DONE);
        assert_eq!(reusable("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore"), closed);
    }

    #[test]
    fn hostile_heads_are_refused_with_bounded_memory() {
        for text in ["\0\0\0\0", "SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"] {
            assert!(parse(text.as_bytes(), 1000).0.is_err(), "{text}");
        }
        let two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        assert!(parse(two.as_bytes(), 1000).0.is_err());
        let endless = ["HTTP/1.1 200 OK\r\nx: ".to_owned(), "y".repeat(100_000)].concat();
        for step in [1, 1000, 100_000] {
            let (mut parser, mut most) = (ResponseParser::new(false), 0);
            let failed = endless.as_bytes().chunks(step).any(|piece| {
                let failed = parser.feed(piece, &mut |_| {}).is_err();
                most = most.max(parser.head.capacity());
                failed
            });
            assert!(failed && most <= 4 * MAX_HEAD, "{step}: {most}");
        }
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(20);
        assert!(parse(interim.as_bytes(), 7).0.is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in prop::collection::vec(any::<u8>(), 0..400), step in 1_usize..50, head: bool) {
            let mut all = if head { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec() } else { Vec::new() };
            all.extend(text);
            let _outcome = parse(&all, step);
        }
    }
}
