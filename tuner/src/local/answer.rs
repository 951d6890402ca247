//! One request, to learn whether a service is ready.

use std::net::TcpStream;
use std::time::Duration;

use crate::load::http::Scratch;
use crate::load::{LoadError, Options, Target, once};

/// An answer that is longer is not read further: it came.
const MAX_BODY: usize = 4 << 20;

/// Sends one request and judges its answer; the error is for people.
pub fn first_answer(options: &Options, patience: Duration) -> Result<(), String> {
    let mut scratch = Scratch::default();
    let request = options.plan.bytes(0, &mut scratch).to_vec();
    let (status, body) = exchange(&options.target, &request, patience)?;
    let shown = || String::from_utf8_lossy(&body).chars().take(200).collect::<String>();
    options.expectation.judge_status(status).map_err(|_| format!("it answers with status {status}: {}", shown()))?;
    options.expectation.judge_body(&body).map_err(|_| format!("its answer is not what was expected: {}", shown()))
}

/// Asks for a path, for which any status of 2xx is good.
pub fn ready(target: &Target, patience: Duration) -> Result<(), String> {
    let head = format!("GET {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.path, target.authority);
    match exchange(target, head.as_bytes(), patience)? {
        (200..=299, _) => Ok(()),
        (status, _) => Err(format!("{} answers with status {status}", target.path)),
    }
}

/// Whether anybody takes a connection there.
pub fn listens(target: &Target) -> Result<bool, LoadError> {
    let patience = Duration::from_millis(500);
    Ok(target.addresses()?.iter().any(|address| TcpStream::connect_timeout(address, patience).is_ok()))
}

fn exchange(target: &Target, request: &[u8], patience: Duration) -> Result<(u16, Vec<u8>), String> {
    let addresses = target.addresses().map_err(|error| error.to_string())?;
    let mut problem = "it has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => {
                let answer = once::exchange(socket, request, patience, MAX_BODY);
                let answer = answer.map_err(|error| format!("its answer broke off: {error}"))?;
                return Ok((answer.status, answer.body));
            }
            Err(error) => problem = format!("it takes no connection at {address}: {error}"),
        }
    }
    Err(problem)
}
