//! Strict HTTP/1 request framing over the bytes of one connection.
//!
//! The HTTP library repairs some requests that two parsers may read differently (a repeated content-length, content-length
//! beside transfer-encoding, bare line feeds). Repairing is how one client's bytes end up in another client's request, so
//! this scanner follows the framing by itself and names the first byte that must not be passed on
//! (RFC 9112, sections 2.2, 5, 6 and 11.2).

use thiserror::Error;

use crate::unit::is_token_byte;

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Violation {
    /// A line ends without carriage return.
    #[error("a line ends with a bare line feed")]
    BareLineFeed,
    /// Carriage return inside a line, or a NUL.
    #[error("a line contains a control byte")]
    ControlByte,
    /// A header continued on the next line.
    #[error("a header is folded over two lines")]
    FoldedHeader,
    /// A header line without a proper name.
    #[error("a header line has no valid name")]
    HeaderName,
    /// Two content-lengths, even equal ones.
    #[error("content-length is repeated")]
    RepeatedContentLength,
    /// Not a number of bytes.
    #[error("content-length is not a number")]
    ContentLength,
    /// Both ways to frame a body.
    #[error("content-length and transfer-encoding are both given")]
    TwoFramings,
    /// Anything but exactly one `chunked`.
    #[error("transfer-encoding is not exactly `chunked`")]
    TransferEncoding,
    /// Two hosts.
    #[error("host is repeated")]
    RepeatedHost,
    /// No host in HTTP/1.1.
    #[error("host is missing")]
    MissingHost,
    /// A chunk size that is no hexadecimal number of at most 15 digits.
    #[error("a chunk size is not a hexadecimal number")]
    ChunkSize,
    /// A chunk longer or shorter than its size.
    #[error("a chunk does not end where its size says")]
    ChunkEnd,
}

/// The byte at `index` must not be passed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rejected {
    /// Index into the scanned bytes.
    pub index: usize,
    /// Why.
    pub violation: Violation,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Position {
    /// Before the first byte of a request.
    BetweenRequests,
    /// In a request's head.
    Head,
    /// In a request's body.
    Body,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    RequestLine,
    HeaderLine,
    Sized(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkDataEnd,
    TrailerLine,
}

/// How much of a line is kept when it comes in pieces: a name and a short value. Longer lines are checked byte by byte
/// all the same, and the HTTP library limits their length.
const KEPT_LINE: usize = 16 * 1024;

/// Follows the requests of one connection.
#[derive(Clone, Debug)]
pub struct Framing {
    state: State,
    /// The part of the current line that came in earlier pieces.
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    host: bool,
    http11: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self { state: State::RequestLine, line: Vec::new(), length: None, chunked: false, host: false, http11: true }
    }
}

impl Framing {
    /// Where the next byte belongs.
    pub fn position(&self) -> Position {
        match self.state {
            State::RequestLine if self.line.is_empty() => Position::BetweenRequests,
            State::RequestLine | State::HeaderLine => Position::Head,
            _ => Position::Body,
        }
    }

    /// Follows the next bytes of the connection.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<(), Rejected> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.state {
                State::Sized(left) => self.skip(left, rest, State::RequestLine, State::Sized),
                State::ChunkData(left) => self.skip(left, rest, State::ChunkDataEnd, State::ChunkData),
                _ => self.take_line(rest).map_err(|rejected| Rejected { index: at + rejected.index, ..rejected })?,
            };
        }
        Ok(())
    }

    fn skip(&mut self, left: u64, rest: &[u8], then: State, still: impl Fn(u64) -> State) -> usize {
        let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let left = left - skipped as u64;
        self.state = if left == 0 { then } else { still(left) };
        skipped
    }

    /// Consumes up to the end of the line; the bytes of a line that goes on later are kept.
    fn take_line(&mut self, rest: &[u8]) -> Result<usize, Rejected> {
        if self.line.last() == Some(&b'\r') && rest[0] != b'\n' {
            return Err(Rejected { index: 0, violation: Violation::ControlByte });
        }
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            check_bytes(rest)?;
            if self.state == State::ChunkDataEnd && self.line.len() + rest.len() > 1 {
                return Err(Rejected { index: 0, violation: Violation::ChunkEnd });
            }
            let room = KEPT_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&rest[..rest.len().min(room)]);
            // The last byte tells whether the line feed to come is a bare one, so it is kept whatever the length.
            if rest.len() > room
                && let (Some(kept), Some(last)) = (self.line.last_mut(), rest.last())
            {
                *kept = *last;
            }
            return Ok(rest.len());
        };
        let reject = |violation| Rejected { index: end, violation };
        check_bytes(&rest[..end])?;
        let kept = std::mem::take(&mut self.line);
        let joined;
        let line = if kept.is_empty() {
            &rest[..end]
        } else {
            joined = [kept.as_slice(), &rest[..end]].concat();
            joined.as_slice()
        };
        let line = line.strip_suffix(b"\r").ok_or_else(|| reject(Violation::BareLineFeed))?;
        self.state = self.end_line(line).map_err(reject)?;
        Ok(end + 1)
    }

    fn end_line(&mut self, line: &[u8]) -> Result<State, Violation> {
        match self.state {
            State::RequestLine => Ok(self.request_line(line)),
            State::HeaderLine if line.is_empty() => self.end_head(),
            State::HeaderLine => self.header(line).map(|()| State::HeaderLine),
            State::ChunkSize => chunk_size(line),
            State::ChunkDataEnd if line.is_empty() => Ok(State::ChunkSize),
            State::TrailerLine if line.is_empty() => Ok(State::RequestLine),
            State::TrailerLine => header_name(line).map(|_| State::TrailerLine),
            State::ChunkDataEnd | State::Sized(_) | State::ChunkData(_) => Err(Violation::ChunkEnd),
        }
    }

    fn request_line(&mut self, line: &[u8]) -> State {
        if line.is_empty() {
            // An empty line before a request is to be ignored.
            return State::RequestLine;
        }
        (self.length, self.chunked, self.host) = (None, false, false);
        self.http11 = !line.ends_with(b"HTTP/1.0");
        State::HeaderLine
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (name, value) = header_name(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            self.content_length(value)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.transfer_encoding(value)
        } else if name.eq_ignore_ascii_case(b"host") {
            if std::mem::replace(&mut self.host, true) { Err(Violation::RepeatedHost) } else { Ok(()) }
        } else {
            Ok(())
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(Violation::RepeatedContentLength);
        }
        if self.chunked {
            return Err(Violation::TwoFramings);
        }
        // `parse` alone would take a sign.
        let digits = value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        self.length = Some(length.ok_or(Violation::ContentLength)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(Violation::TwoFramings);
        }
        if std::mem::replace(&mut self.chunked, true) || !value.eq_ignore_ascii_case(b"chunked") || !self.http11 {
            return Err(Violation::TransferEncoding);
        }
        Ok(())
    }

    fn end_head(&self) -> Result<State, Violation> {
        if self.http11 && !self.host {
            return Err(Violation::MissingHost);
        }
        Ok(match self.length {
            _ if self.chunked => State::ChunkSize,
            None | Some(0) => State::RequestLine,
            Some(length) => State::Sized(length),
        })
    }
}

/// NUL anywhere, and a carriage return before other bytes.
fn check_bytes(bytes: &[u8]) -> Result<(), Rejected> {
    let last = bytes.len().saturating_sub(1);
    let bad = |(index, byte): (usize, &u8)| *byte == 0 || (*byte == b'\r' && index != last);
    match bytes.iter().enumerate().find(|(index, byte)| bad((*index, byte))) {
        Some((index, _)) => Err(Rejected { index, violation: Violation::ControlByte }),
        None => Ok(()),
    }
}

/// Splits a header line; the value is trimmed.
fn header_name(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Violation::FoldedHeader);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Violation::HeaderName)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().copied().all(is_token_byte) {
        return Err(Violation::HeaderName);
    }
    Ok((name, value.trim_ascii()))
}

fn chunk_size(line: &[u8]) -> Result<State, Violation> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    // Spaces before an extension are "bad whitespace" of RFC 9112, section 7.1.1; nobody needs them.
    let valid = (1..=15).contains(&size.len()) && size.iter().all(u8::is_ascii_hexdigit);
    let size = std::str::from_utf8(size).ok().filter(|_| valid).and_then(|text| u64::from_str_radix(text, 16).ok());
    match size.ok_or(Violation::ChunkSize)? {
        0 => Ok(State::TrailerLine),
        size => Ok(State::ChunkData(size)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn violation(request: &str) -> Option<Violation> {
        Framing::default().scan(request.as_bytes()).err().map(|rejected| rejected.violation)
    }

    fn headers(lines: &str) -> Option<Violation> {
        violation(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
    }

    const GOOD: [&str; 5] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\0\n\r\n\0GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\n\0\n\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\nX: a:b\r\n\r\n",
    ];

    #[test]
    fn lets_proper_requests_pass_in_any_pieces() {
        for request in GOOD {
            assert_eq!(violation(request), None, "{request:?}");
            for size in 1..request.len() {
                let mut framing = Framing::default();
                for piece in request.as_bytes().chunks(size) {
                    assert_eq!(framing.scan(piece), Ok(()), "{request:?} in pieces of {size}");
                }
                assert_eq!(framing.position(), Position::BetweenRequests);
            }
        }
    }

    #[test]
    fn rejects_what_two_parsers_may_read_differently() {
        use Violation::{
            BareLineFeed, ContentLength, ControlByte, FoldedHeader, HeaderName, MissingHost, RepeatedContentLength,
            RepeatedHost, TransferEncoding, TwoFramings,
        };
        let cases = [
            ("Content-Length: 1\r\nContent-Length: 2\r\n", RepeatedContentLength),
            ("Content-Length: 1\r\nContent-Length: 1\r\n", RepeatedContentLength),
            ("Content-Length: 1, 1\r\n", ContentLength),
            ("Content-Length: +1\r\n", ContentLength),
            ("Content-Length: \r\n", ContentLength),
            ("Content-Length: 99999999999999999999\r\n", ContentLength),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", TwoFramings),
            ("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", TwoFramings),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", TransferEncoding),
            ("Transfer-Encoding: gzip, chunked\r\n", TransferEncoding),
            ("Transfer-Encoding: xchunked\r\n", TransferEncoding),
            ("Transfer-Encoding : chunked\r\n", HeaderName),
            ("X: a\r\n folded\r\n", FoldedHeader),
            ("X: a\0b\r\n", ControlByte),
            ("X: a\rb\r\n", ControlByte),
            ("X: a\n", BareLineFeed),
            ("X\r\n", HeaderName),
            (": x\r\n", HeaderName),
            ("Host: b\r\n", RepeatedHost),
        ];
        for (lines, expected) in cases {
            assert_eq!(headers(lines), Some(expected), "{lines:?}");
        }
        assert_eq!(violation("GET / HTTP/1.1\r\n\r\n"), Some(MissingHost));
        assert_eq!(violation("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(TransferEncoding));
    }

    #[test]
    fn rejects_bad_chunks() {
        let chunks = |body: &str| headers(&format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
        for size in ["", "g", "-1", "0x1", "1 ", " 1", "1111111111111111"] {
            assert_eq!(chunks(&format!("{size}\r\nx\r\n")), Some(Violation::ChunkSize), "{size:?}");
        }
        assert_eq!(chunks("1\r\nxy\r\n"), Some(Violation::ChunkEnd));
        assert_eq!(chunks("1\nx\r\n"), Some(Violation::BareLineFeed));
        assert_eq!(chunks("1;a\nb\r\nx\r\n"), Some(Violation::BareLineFeed));
    }

    #[test]
    fn keeps_a_long_line_bounded_and_still_sees_its_end() {
        let mut framing = Framing::default();
        framing.scan(b"GET / HTTP/1.1\r\nX: ").unwrap();
        for _ in 0..100 {
            framing.scan(&[b'a'; 1_000]).unwrap();
            assert!(framing.line.len() <= KEPT_LINE);
        }
        let mut proper = framing.clone();
        assert_eq!(proper.scan(b"\r").and_then(|()| proper.scan(b"\nHost: a\r\n\r\n")), Ok(()));
        assert_eq!(framing.scan(b"\n").unwrap_err().violation, Violation::BareLineFeed);
    }

    proptest! {
        #[test]
        fn pieces_never_change_the_verdict(which in 0..GOOD.len(), at: prop::sample::Index, byte: u8, size in 1_usize..40) {
            let mut bytes = GOOD[which].as_bytes().to_vec();
            let position = at.index(bytes.len());
            bytes[position] = byte;
            let whole = Framing::default().scan(&bytes);
            let mut framing = Framing::default();
            let pieces = bytes.chunks(size).try_for_each(|piece| framing.scan(piece));
            prop_assert_eq!(whole.is_ok(), pieces.is_ok());
        }

        #[test]
        fn never_panics(bytes: Vec<u8>, size in 1_usize..9) {
            let mut framing = Framing::default();
            for piece in bytes.chunks(size) {
                if framing.scan(piece).is_err() {
                    break;
                }
            }
        }
    }
}
