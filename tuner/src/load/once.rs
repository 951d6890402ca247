//! One request on a connection of its own, outside any load.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::http::{Progress, ResponseParser};

/// What came back.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// False when the body is longer than asked for: it was not read further.
    pub is_whole: bool,
}

/// Sends `request` and reads its answer, `most` bytes of the body or a little more; each read and write takes `patience`
/// at most.
pub fn exchange(mut socket: TcpStream, request: &[u8], patience: Duration, most: usize) -> io::Result<Answer> {
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.write_all(request)?;
    let (mut parser, mut body, mut buffer) = (ResponseParser::new(false), Vec::new(), [0; 8 << 10]);
    loop {
        let count = socket.read(&mut buffer)?;
        let progress = match count {
            0 => parser.finish(),
            _ => parser.feed(&buffer[..count], &mut |data| body.extend_from_slice(data)),
        };
        let is_whole = matches!(progress.map_err(io::Error::other)?, Progress::Done { .. });
        if is_whole || body.len() > most {
            return Ok(Answer { status: parser.status(), body, is_whole });
        }
    }
}
