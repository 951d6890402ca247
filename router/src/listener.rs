//! Accepting clients, and the way out: still accept for a while, close, let requests in flight finish.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::FutureExt;
use futures::future::select;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::serve;
use crate::server::Shared;

/// After an error of the operating system (no more descriptors) there is no use in asking again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Before the deadline: enough to answer every request that is held.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Accepts clients and keeps track of their connections.
pub struct Acceptor {
    listener: TcpListener,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    close: CancellationToken,
}

impl Acceptor {
    /// Nothing is accepted yet.
    pub fn new(listener: TcpListener, shared: Arc<Shared>) -> Self {
        let places = Arc::new(Semaphore::new(shared.limits.connections));
        Self { listener, shared, places, tasks: TaskTracker::new(), close: CancellationToken::new() }
    }

    /// Runs until the token is cancelled and everybody is served, or the deadline has passed.
    pub async fn run(self, token: CancellationToken, drain: Duration, deadline: Duration) {
        select(pin!(self.accept()), pin!(token.cancelled())).await;
        // Whoever sends us clients learns it now, and takes a moment to act on it; until then every response asks the
        // client to come back on another connection.
        self.shared.draining.store(true, Relaxed);
        tracing::info!(?drain, "draining");
        let _ = tokio::time::timeout(drain, self.accept()).await;
        self.accept_waiting();
        self.finish(deadline).await;
    }

    async fn finish(self, deadline: Duration) {
        let Self { listener, tasks, close, shared, .. } = self;
        drop(listener);
        close.cancel();
        tasks.close();
        // Whoever still waits for an arm is told so while there is time to tell.
        let telling = LAST_WORDS.min(deadline / 2);
        if tokio::time::timeout(deadline.saturating_sub(telling), tasks.wait()).await.is_ok() {
            return;
        }
        shared.hold.closed.cancel();
        if tokio::time::timeout(telling, tasks.wait()).await.is_err() {
            tracing::warn!(connections = tasks.len(), "deadline passed with requests in flight");
        }
    }

    async fn accept(&self) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, peer)) => self.spawn(stream, peer, place),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a client");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Clients that the operating system has accepted already would be reset by closing the listener.
    fn accept_waiting(&self) {
        while let Ok(place) = self.places.clone().try_acquire_owned() {
            match self.listener.accept().now_or_never() {
                Some(Ok((stream, peer))) => self.spawn(stream, peer, place),
                Some(Err(_)) | None => return,
            }
        }
    }

    fn spawn(
        &self,
        stream: tokio::net::TcpStream,
        peer: std::net::SocketAddr,
        place: tokio::sync::OwnedSemaphorePermit,
    ) {
        let (shared, close) = (self.shared.clone(), self.close.clone());
        self.shared.metrics.connections.inc();
        let connections = self.shared.metrics.connections.clone();
        self.tasks.spawn(async move {
            serve(stream, peer, shared, close).await;
            connections.dec();
            drop(place);
        });
    }
}
