//! One forwarded connection: find an endpoint, then copy both ways until both sides are done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::pick::{Backend, Backends, OpenGuard};

/// On loopback an endpoint that takes longer is stuck.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a new connection waits for an endpoint to appear: a rollout's gap, not an outage.
const HOLD: Duration = Duration::from_secs(5);
/// Endpoints that refused are tried again after this.
const RETRY: Duration = Duration::from_millis(200);
/// Endpoints tried in one round.
const MOST_TRIED: usize = 8;

/// Serves one accepted connection.
pub(crate) async fn forward(mut client: TcpStream, mut backends: watch::Receiver<Arc<Backends>>, held: Arc<Semaphore>) {
    let Some((mut upstream, _open)) = reach(&mut backends, &held).await else { return };
    // An option that cannot be set costs only speed.
    let _ = client.set_nodelay(true);
    let _ = upstream.set_nodelay(true);
    // The other side's end or error ends the copy; there is nobody to tell.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
}

/// Connects to an endpoint; holds on for a while when there is none, if not too many hold already.
async fn reach(backends: &mut watch::Receiver<Arc<Backends>>, held: &Arc<Semaphore>) -> Option<(TcpStream, OpenGuard)> {
    let deadline = Instant::now() + HOLD;
    let mut holding = None;
    loop {
        let known = backends.borrow_and_update().clone();
        let (connected, any) = try_each(&known).await;
        if connected.is_some() {
            return connected;
        }
        if holding.is_none() {
            holding = Some(held.clone().try_acquire_owned().ok()?);
        }
        let until = if any { deadline.min(Instant::now() + RETRY) } else { deadline };
        match tokio::time::timeout_at(until, backends.changed()).await {
            Ok(Err(_)) => return None,
            Err(_) if Instant::now() >= deadline => return None,
            Ok(Ok(())) | Err(_) => {}
        }
    }
}

/// Tries endpoints in turn; also says whether there were any.
async fn try_each(backends: &Backends) -> (Option<(TcpStream, OpenGuard)>, bool) {
    let mut tried: Vec<SocketAddr> = Vec::new();
    while tried.len() < MOST_TRIED {
        let Some(backend) = backends.pick(&tried, &mut rand::rng()) else { break };
        if let Some(connected) = connect(&backend).await {
            return (Some(connected), true);
        }
        tried.push(backend.address);
    }
    (None, !tried.is_empty())
}

async fn connect(backend: &Backend) -> Option<(TcpStream, OpenGuard)> {
    // Counted before it connects, so that a burst spreads.
    let open = backend.enter();
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(backend.address)).await.ok()?.ok()?;
    Some((stream, open))
}
