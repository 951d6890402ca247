//! Connections to one endpoint: opened when needed, kept for a short while, the newest used first.

use std::io;
use std::time::{Duration, Instant};

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::RequestBody;

/// Servers close idle connections after 5 s and more: ours close first, so that no request meets a closing one.
const KEEP: Duration = Duration::from_secs(4);

/// Kept connections per endpoint: more than the concurrency of any one model server.
const MOST_KEPT: usize = 256;

/// Header lines of a response.
const MAX_HEADERS: usize = 128;

/// Where connections run; they end with the router.
#[derive(Clone)]
pub struct Connections {
    /// Counts the tasks.
    pub tasks: TaskTracker,
    /// Ends them.
    pub kill: CancellationToken,
}

/// A connection that a request can be sent on.
pub struct Connection {
    /// The sending half.
    pub sender: SendRequest<RequestBody>,
    /// Whether it has served a request before.
    pub reused: bool,
}

struct Idle {
    sender: SendRequest<RequestBody>,
    since: Instant,
}

/// Kept connections of one endpoint.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Idle>>);

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The operating system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The HTTP library said no.
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

impl Pool {
    /// The newest kept connection that is ready.
    pub fn take(&self) -> Option<Connection> {
        let mut kept = self.0.lock();
        drop_stale(&mut kept);
        let ready = kept.iter().rposition(|idle| idle.sender.is_ready())?;
        let sender = kept.remove(ready).sender;
        Some(Connection { sender, reused: true })
    }

    /// Keeps a connection whose response has ended.
    pub fn put(&self, sender: SendRequest<RequestBody>) {
        if sender.is_closed() {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() < MOST_KEPT {
            kept.push(Idle { sender, since: Instant::now() });
        }
    }

    /// Closes what was kept too long.
    pub fn sweep(&self) {
        drop_stale(&mut self.0.lock());
    }
}

fn drop_stale(kept: &mut Vec<Idle>) {
    kept.retain(|idle| idle.since.elapsed() < KEEP && !idle.sender.is_closed());
}

/// Opens a new connection.
pub async fn connect(
    address: &str,
    limit: Option<Duration>,
    connections: &Connections,
) -> Result<Connection, ConnectError> {
    let open = TcpStream::connect(address);
    let stream = match limit {
        Some(limit) => tokio::time::timeout(limit, open).await.map_err(|_| ConnectError::Timeout(limit))??,
        None => open.await?,
    };
    stream.set_nodelay(true)?;
    let (sender, driver) = Builder::new().max_headers(MAX_HEADERS).handshake(TokioIo::new(stream)).await?;
    let kill = connections.kill.clone();
    connections.tasks.spawn(async move {
        tokio::select! {
            ended = driver.with_upgrades() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection to an endpoint ended");
                }
            }
            () = kill.cancelled() => {}
        }
    });
    Ok(Connection { sender, reused: false })
}
