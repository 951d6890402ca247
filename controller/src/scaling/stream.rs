//! One router's stats: `GET /stats/stream` on its admin port, server-sent events.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use modelway_api::stats::RouterStats;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};

use crate::jitter::jittered;

/// Longest wait for a connection, and for the head of the answer.
const CONNECT: Duration = Duration::from_secs(2);
/// A router says something every 10 s; after twice that it is gone.
const SILENCE: Duration = Duration::from_secs(25);
/// Wait after a stream that ended; doubled up to the bound.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Longest event. Routers keep theirs under 4 KiB.
const LONGEST_EVENT: usize = 64 * 1024;

/// What a stream tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Stats(Box<RouterStats>),
    /// The stream ended: what the router does is not known until the next word.
    Lost,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("cannot reach the router's admin port: {0}")]
    Connect(#[from] std::io::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("the stream broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the router answered {0}")]
    Status(http::StatusCode),
    #[error("an event of more than {LONGEST_EVENT} bytes")]
    TooLong,
    #[error("the router ended the stream")]
    Ended,
}

/// Follows a router for ever; what it tells goes to `hear`. `address` is `ip:port` of its admin port.
pub async fn follow(address: String, hear: mpsc::Sender<Heard>) {
    let mut wait = RETRY_FIRST;
    loop {
        let mut heard = false;
        let error = read(&address, &hear, &mut heard).await;
        tracing::debug!(address, %error, "router stats end");
        if hear.send(Heard::Lost).await.is_err() {
            return;
        }
        wait = if heard { RETRY_FIRST } else { (wait * 2).min(RETRY_MAX) };
        tokio::time::sleep(jittered(wait)).await;
    }
}

async fn read(address: &str, hear: &mpsc::Sender<Heard>, heard: &mut bool) -> StreamError {
    let (mut sender, connection) = match timeout(CONNECT, connect(address)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return error,
        Err(_) => return StreamError::Silent(CONNECT),
    };
    let listen = async {
        match timeout(CONNECT, ask(&mut sender, address)).await {
            Ok(Ok(body)) => listen(body, hear, heard).await,
            Ok(Err(error)) => error,
            Err(_) => StreamError::Silent(CONNECT),
        }
    };
    tokio::select! {
        error = listen => error,
        ended = connection => ended.map_or_else(StreamError::from, |()| StreamError::Ended),
    }
}

type Request = Empty<Bytes>;

async fn connect(
    address: &str,
) -> Result<(http1::SendRequest<Request>, http1::Connection<TokioIo<TcpStream>, Request>), StreamError> {
    let connection = TcpStream::connect(address).await?;
    connection.set_nodelay(true)?;
    Ok(http1::handshake(TokioIo::new(connection)).await?)
}

async fn ask(sender: &mut http1::SendRequest<Request>, address: &str) -> Result<Incoming, StreamError> {
    let request = http::Request::get("/stats/stream").header(http::header::HOST, address);
    let request = request.body(Request::new()).expect("an address is a host");
    let response = sender.send_request(request).await?;
    match response.status() {
        http::StatusCode::OK => Ok(response.into_body()),
        status => Err(StreamError::Status(status)),
    }
}

async fn listen(mut body: Incoming, hear: &mpsc::Sender<Heard>, heard: &mut bool) -> StreamError {
    let mut events = Events::default();
    loop {
        let frame = match timeout(SILENCE, body.frame()).await {
            Err(_) => return StreamError::Silent(SILENCE),
            Ok(None) => return StreamError::Ended,
            Ok(Some(Err(error))) => return error.into(),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        let found = match events.take(&data) {
            Ok(found) => found,
            Err(error) => return error,
        };
        for stats in found {
            *heard = true;
            if hear.send(Heard::Stats(Box::new(stats))).await.is_err() {
                return StreamError::Ended;
            }
        }
    }
}

/// Puts events together from pieces.
#[derive(Debug, Default)]
struct Events(Vec<u8>);

impl Events {
    /// The documents that are whole by now. A line that is no document is skipped: a later release may send others.
    fn take(&mut self, data: &[u8]) -> Result<Vec<RouterStats>, StreamError> {
        self.0.extend_from_slice(data);
        let mut found = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            let document = line.strip_prefix(b"data:").map(serde_json::from_slice::<RouterStats>);
            found.extend(document.and_then(Result::ok));
        }
        if self.0.len() > LONGEST_EVENT { Err(StreamError::TooLong) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_pieces() {
        let mut events = Events::default();
        let document = RouterStats { version: 1, boot_id: "b".to_owned(), generation: 3, ..RouterStats::default() };
        let line = format!("data: {}\n\n", serde_json::to_string(&document).unwrap());
        let (head, tail) = line.as_bytes().split_at(9);
        assert_eq!(events.take(head).unwrap(), []);
        assert_eq!(events.take(tail).unwrap(), std::slice::from_ref(&document));
        assert_eq!(events.take(b": a comment\n\ndata: {\"no\n\n").unwrap(), []);
        assert_eq!(events.take(line.as_bytes()).unwrap(), [document]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut events = Events::default();
        let piece = [b'x'; 1_024];
        let error = (0..100).find_map(|_| events.take(&piece).err());
        assert!(matches!(error, Some(StreamError::TooLong)));
    }

    #[tokio::test]
    async fn a_router_that_is_not_there_is_lost_and_asked_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, mut heard) = mpsc::channel(4);
        let following = tokio::spawn(follow(address, sender));
        for _ in 0..2 {
            drop(listener.accept().await.unwrap());
            assert_eq!(heard.recv().await, Some(Heard::Lost));
        }
        following.abort();
    }
}
