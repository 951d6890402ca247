//! One client's connection from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::{Either, select};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::framing_guard::FramingGuard;
use crate::proxy::{self, Client};
use crate::server::Shared;

/// What is known of one client's connection.
#[derive(Default)]
pub struct ConnectionState {
    /// Set when the connection leaves HTTP.
    pub tunnelled: AtomicBool,
    /// Set while it matters whether the client is still there although nothing is read from it.
    pub watched: AtomicBool,
    /// Set when it was found to have left while that mattered.
    pub left: AtomicBool,
}

/// Serves requests until the client leaves. `close` ends it after the response in progress.
pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, close: CancellationToken) {
    if stream.set_nodelay(true).is_err() {
        // The client has left.
        return;
    }
    let limits = shared.limits;
    let client = Client { address: peer.ip(), connection: Arc::default() };
    let rejected = shared.metrics.rejected.clone();
    let guard = FramingGuard::new(stream, client.connection.clone(), limits.header_read, rejected);
    let kill = shared.connections.kill.clone();
    let service = service_fn(move |request| {
        let answer = proxy::handle(shared.clone(), client.clone(), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = Builder::new();
    // The guard limits a head's time from its first byte; the HTTP library's timer also runs between requests.
    builder.timer(TokioTimer::new()).header_read_timeout(limits.keep_alive.max(limits.header_read));
    builder
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .max_buf_size(limits.head_bytes.max(8 * 1024));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(guard), service).with_upgrades());
    // First what has arrived, then the end: a request that raced with the signal is answered.
    if let Either::Right(_) = select(connection.as_mut(), pin!(close.cancelled())).await {
        connection.as_mut().graceful_shutdown();
        // Errors are the client's affair: it has left, or got an answer that says what was wrong.
        let _ = select(connection, pin!(kill.cancelled())).await;
    }
}
