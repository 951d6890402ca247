//! The chunked transfer coding (RFC 9112, section 7.1), byte by byte where it must, in slices where it can.

use super::response::Malformed;

/// Bytes that extensions and trailers of one answer may have.
const MAX_OVERHEAD: u32 = 64 << 10;

/// Where the decoder is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Size {
        value: u64,
        digits: u32,
    },
    Extension {
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataEnd,
    DataEndLine,
    /// In a trailer line, with what it has so far.
    Trailer {
        length: u32,
    },
    Done,
}

/// Takes the coding off.
#[derive(Clone, Copy, Debug)]
pub struct Chunked {
    state: State,
    overhead: u32,
}

impl Chunked {
    pub fn new() -> Self {
        Self { state: State::Size { value: 0, digits: 0 }, overhead: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes; gives how many bytes were taken. All of them, unless the body ended.
    pub fn feed(&mut self, bytes: &[u8], data: &mut impl FnMut(&[u8])) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < bytes.len() && !self.is_done() {
            if let State::Data { left } = self.state {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                data(&bytes[at..at + here]);
                at += here;
                let left = left - here as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data { left } };
            } else {
                self.state = self.step(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        let wrong = Err(Malformed("a chunk is malformed"));
        match (self.state, byte) {
            (State::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = u64::from(char::from(byte).to_digit(16).unwrap_or_default());
                match value.checked_mul(16) {
                    Some(shifted) if digits < 16 => Ok(State::Size { value: shifted + digit, digits: digits + 1 }),
                    _ => wrong,
                }
            }
            (State::Size { digits: 0, .. }, _) => wrong,
            (State::Size { value, .. } | State::Extension { size: value }, b'\r') => Ok(State::SizeEnd { size: value }),
            (State::Size { value, .. } | State::Extension { size: value }, b'\n') => Ok(after_size(value)),
            (State::Size { value, .. }, b';' | b' ' | b'\t') => Ok(State::Extension { size: value }),
            (State::Extension { .. }, _) => self.overhead().map(|()| self.state),
            (State::SizeEnd { size }, b'\n') => Ok(after_size(size)),
            (State::DataEnd, b'\r') => Ok(State::DataEndLine),
            (State::DataEnd | State::DataEndLine, b'\n') => Ok(State::Size { value: 0, digits: 0 }),
            (State::Trailer { .. }, b'\r') => Ok(self.state),
            (State::Trailer { length: 0 }, b'\n') => Ok(State::Done),
            (State::Trailer { .. }, b'\n') => Ok(State::Trailer { length: 0 }),
            (State::Trailer { .. }, _) => self.overhead().map(|()| State::Trailer { length: 1 }),
            (
                State::Size { .. }
                | State::SizeEnd { .. }
                | State::Data { .. }
                | State::DataEnd
                | State::DataEndLine
                | State::Done,
                _,
            ) => wrong,
        }
    }

    fn overhead(&mut self) -> Result<(), Malformed> {
        self.overhead += 1;
        if self.overhead > MAX_OVERHEAD { Err(Malformed("chunk extensions or trailers without end")) } else { Ok(()) }
    }
}

fn after_size(size: u64) -> State {
    if size == 0 { State::Trailer { length: 0 } } else { State::Data { left: size } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &[u8], step: usize) -> Result<(Vec<u8>, bool, usize), Malformed> {
        let (mut decoder, mut body, mut taken) = (Chunked::new(), Vec::new(), 0);
        for piece in text.chunks(step) {
            taken += decoder.feed(piece, &mut |data| body.extend_from_slice(data))?;
        }
        Ok((body, decoder.is_done(), taken))
    }

    #[test]
    fn pieces_of_any_size_give_the_same_body() {
        let text = b"4\r\nWiki\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n";
        for step in 1..=text.len() {
            assert_eq!(decode(text, step), Ok((b"Wiki0123456789".to_vec(), true, text.len())), "{step}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_left() {
        let (body, done, taken) = decode(b"0\r\n\r\nHTTP/1.1", 100).unwrap();
        assert_eq!((body.len(), done, taken), (0, true, 5));
    }

    #[test]
    fn garbage_and_endless_parts_are_refused() {
        for text in [&b"xyz"[..], b"\r\n", b"4\r\nWikiX", b"FFFFFFFFFFFFFFFFF\r\n", b"4\rX"] {
            assert!(decode(text, 100).is_err(), "{text:?}");
        }
        assert!(decode(&[b"1;".as_slice(), &vec![b'x'; 70_000]].concat(), 1000).is_err());
        assert!(decode(&[b"0\r\n".as_slice(), &b"a: b\r\n".repeat(20_000)].concat(), 1000).is_err());
    }
}
