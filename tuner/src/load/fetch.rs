//! One plain GET, for what a server says of itself before a run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::http::{Progress, ResponseParser};
use super::{LoadError, Target};

/// How long the server may take for each step.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const MAX_BODY: usize = 4 << 20;

/// Gives the body of an answer with status 200.
pub fn get(target: &Target, wanted: &'static str) -> Result<Vec<u8>, LoadError> {
    let mut problem = "no address".to_owned();
    for address in target.addresses()? {
        match exchange(target, &address) {
            Ok((200, body)) => return Ok(body),
            Ok((status, _)) => {
                return Err(LoadError::Refused {
                    target: target.to_string(),
                    answer: format!("status {status}"),
                    wanted,
                });
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(LoadError::Unreachable { target: target.to_string(), problem })
}

fn exchange(target: &Target, address: &std::net::SocketAddr) -> std::io::Result<(u16, Vec<u8>)> {
    let mut socket = TcpStream::connect_timeout(address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.path, target.authority);
    socket.write_all(request.as_bytes())?;
    let (mut parser, mut body, mut buffer) = (ResponseParser::new(false), Vec::new(), [0; 8 << 10]);
    loop {
        let count = socket.read(&mut buffer)?;
        let progress = match count {
            0 => parser.finish(),
            _ => parser.feed(&buffer[..count], &mut |data| body.extend_from_slice(data)),
        };
        match progress.map_err(std::io::Error::other)? {
            Progress::Done { .. } => return Ok((parser.status(), body)),
            Progress::More if body.len() > MAX_BODY => return Err(std::io::Error::other("the answer is too long")),
            Progress::More => {}
        }
    }
}
