//! A client's connection whose bytes are checked before the HTTP library sees them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use modelway_route::framing::{Framing, Position};
use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::connection::ConnectionState;

/// A stream that knows whether the other side has ended it, also while bytes of it have not been read yet.
pub trait Hangup {
    /// Whether nothing new can come.
    fn has_hung_up(&self) -> bool;
}

impl Hangup for TcpStream {
    fn has_hung_up(&self) -> bool {
        let ready = self.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.is_ok_and(Ready::is_read_closed))
    }
}

/// Refuses requests with ambiguous framing and clients that take forever over a request's head.
///
/// The first byte that must not pass is replaced by a NUL, which the HTTP library answers with 400 after the responses
/// that are still due, and the connection ends there.
pub struct FramingGuard<S> {
    stream: S,
    framing: Framing,
    ended: bool,
    connection: Arc<ConnectionState>,
    head_limit: Duration,
    head_timer: Option<Pin<Box<Sleep>>>,
    rejected: IntCounter,
}

impl<S> FramingGuard<S> {
    /// `rejected` counts.
    pub fn new(stream: S, connection: Arc<ConnectionState>, head_limit: Duration, rejected: IntCounter) -> Self {
        let framing = Framing::default();
        Self { stream, framing, ended: false, connection, head_limit, head_timer: None, rejected }
    }

    fn check(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        if let Err(rejected) = self.framing.scan(&buffer.filled()[before..]) {
            tracing::debug!(violation = %rejected.violation, "request refused");
            self.rejected.inc();
            self.ended = true;
            let at = before + rejected.index;
            buffer.filled_mut()[at] = 0;
            buffer.set_filled(at + 1);
        }
        if self.framing.position() != Position::Head {
            self.head_timer = None;
        }
    }

    fn head_took_too_long(&mut self, context: &mut Context<'_>) -> bool {
        let limit = self.head_limit;
        self.framing.position() == Position::Head
            && self
                .head_timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)))
                .as_mut()
                .poll(context)
                .is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FramingGuard<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.connection.tunnelled.load(Relaxed) {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        if this.ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                this.check(buffer, before);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if this.head_took_too_long(context) => {
                this.ended = true;
                Poll::Ready(Ok(()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Hangup + Unpin> AsyncWrite for FramingGuard<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    /// The HTTP library flushes each time that it looks at the connection, also when it reads nothing from it.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.connection.watched.load(Relaxed) && this.stream.has_hung_up() {
            this.connection.left.store(true, Relaxed);
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
