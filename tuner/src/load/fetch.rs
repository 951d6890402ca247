//! One plain GET, for what a server says of itself before a run.

use std::net::TcpStream;
use std::time::Duration;

use super::once;
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
    let socket = TcpStream::connect_timeout(address, PATIENCE)?;
    let request = format!("GET {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.path, target.authority);
    let answer = once::exchange(socket, request.as_bytes(), PATIENCE, MAX_BODY)?;
    if !answer.is_whole {
        return Err(std::io::Error::other("the answer is too long"));
    }
    Ok((answer.status, answer.body))
}
