//! Bodies on their way through: small ones kept for a second attempt, others streamed, all under limits on time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::keep_alive::Patient;

/// Why a request's body did not arrive.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum UploadFailure {
    /// Bad framing, or the client left.
    #[error("the request's body ended early or is framed wrongly")]
    Broken,
    /// Nothing for too long.
    #[error("the request's body stalled")]
    Idle,
    /// More than the limit.
    #[error("the request's body is too large")]
    TooLarge,
}

/// A failed body, as the HTTP library wants it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BodyError(String);

/// Limits on a request's body.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// Between two parts.
    pub idle: Option<Duration>,
    /// All of it.
    pub bytes: Option<u64>,
}

/// A request's body.
pub enum RequestBody {
    /// At hand as a whole.
    Kept(Full<Bytes>),
    /// Passed on as it comes.
    Streamed(Box<Streamed>),
}

/// What became of a streamed body, for the request that sent it.
#[derive(Default)]
pub struct Upload {
    failure: AtomicU8,
    /// Cancelled when the last part is on its way.
    pub done: CancellationToken,
}

impl Upload {
    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<UploadFailure> {
        match self.failure.load(Relaxed) {
            1 => Some(UploadFailure::Broken),
            2 => Some(UploadFailure::Idle),
            3 => Some(UploadFailure::TooLarge),
            _ => None,
        }
    }

    fn fail(&self, failure: UploadFailure) -> BodyError {
        let code = match failure {
            UploadFailure::Broken => 1,
            UploadFailure::Idle => 2,
            UploadFailure::TooLarge => 3,
        };
        self.failure.store(code, Relaxed);
        BodyError(failure.to_string())
    }
}

/// A body that is passed on as it comes.
pub struct Streamed {
    incoming: Incoming,
    seen: u64,
    limits: UploadLimits,
    idle: IdleTimer,
    upload: Arc<Upload>,
}

impl RequestBody {
    /// A body to be passed on, and where to look what became of it.
    pub fn streamed(incoming: Incoming, limits: UploadLimits) -> (Self, Arc<Upload>) {
        let upload = Arc::new(Upload::default());
        let idle = IdleTimer::new(limits.idle);
        let streamed = Streamed { incoming, seen: 0, limits, idle, upload: upload.clone() };
        (Self::Streamed(Box::new(streamed)), upload)
    }

    /// The bytes of a kept body.
    pub fn kept(&self) -> Option<Bytes> {
        let Self::Kept(body) = self else { return None };
        body.clone().frame().now_or_never()??.ok()?.into_data().ok()
    }

    /// A second copy of a kept body.
    pub fn replay(&self) -> Option<Self> {
        match self {
            Self::Kept(body) => Some(Self::Kept(body.clone())),
            Self::Streamed(_) => None,
        }
    }
}

/// Reads a small body as a whole.
pub async fn read_small(mut incoming: Incoming, length: usize, limits: UploadLimits) -> Result<Bytes, UploadFailure> {
    let mut whole = BytesMut::new();
    loop {
        let frame = match limits.idle {
            Some(limit) => tokio::time::timeout(limit, incoming.frame()).await.map_err(|_| UploadFailure::Idle)?,
            None => incoming.frame().await,
        };
        let Some(frame) = frame else {
            return Ok(whole.freeze());
        };
        if let Ok(data) = frame.map_err(|_| UploadFailure::Broken)?.into_data() {
            // The usual case: the whole body came in one piece.
            if whole.is_empty() && data.len() == length {
                return Ok(data);
            }
            whole.extend_from_slice(&data);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Kept(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Streamed(body) => body.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Kept(body) => body.is_end_stream(),
            Self::Streamed(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Kept(body) => body.size_hint(),
            Self::Streamed(body) => body.incoming.size_hint(),
        }
    }
}

impl Streamed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            ready!(self.idle.poll(context));
            return Poll::Ready(Some(Err(self.upload.fail(UploadFailure::Idle))));
        };
        self.idle.reset();
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return Poll::Ready(Some(Err(self.upload.fail(UploadFailure::Broken)))),
            None => {
                self.upload.done.cancel();
                return Poll::Ready(None);
            }
        };
        self.seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if self.limits.bytes.is_some_and(|limit| self.seen > limit) {
            return Poll::Ready(Some(Err(self.upload.fail(UploadFailure::TooLarge))));
        }
        if self.incoming.is_end_stream() {
            self.upload.done.cancel();
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

/// Runs out when it is polled for longer than the limit without a reset.
pub struct IdleTimer {
    limit: Option<Duration>,
    sleep: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl IdleTimer {
    /// A timer that is not running; no limit = never runs out.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, sleep: None, running: false }
    }

    /// Something happened.
    pub fn reset(&mut self) {
        self.running = false;
    }

    /// Starts the timer if needed; ready when it has run out.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(limit) = self.limit else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if !std::mem::replace(&mut self.running, true) {
            sleep.as_mut().reset(Instant::now() + limit);
        }
        sleep.as_mut().poll(context)
    }
}

/// What has to happen when a response's body has ended, or is dropped before that.
pub trait Completion: Send {
    /// The last byte has passed.
    fn ended(&mut self);
    /// The endpoint broke off or stalled.
    fn failed(&mut self, stalled: bool);
}

/// A response's body.
pub enum ResponseBody {
    /// The router's own.
    Own(Full<Bytes>),
    /// An endpoint's.
    Forwarded(Box<Forwarded>),
    /// Starts before the answer is there.
    Patient(Box<Patient>),
}

/// An endpoint's body on its way to the client.
pub struct Forwarded {
    incoming: Incoming,
    idle: IdleTimer,
    deadline: Option<Pin<Box<Sleep>>>,
    completion: Box<dyn Completion>,
    ended: bool,
}

impl ResponseBody {
    /// Passes an endpoint's body on.
    pub fn forwarded(
        incoming: Incoming,
        idle: Option<Duration>,
        deadline: Option<Instant>,
        completion: Box<dyn Completion>,
    ) -> Self {
        let deadline = deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline)));
        let idle = IdleTimer::new(idle);
        let mut forwarded = Forwarded { incoming, idle, deadline, completion, ended: false };
        forwarded.notice_end();
        Self::Forwarded(Box::new(forwarded))
    }
}

impl Forwarded {
    /// The HTTP library does not ask a finished body again, so the end is noticed with the last part.
    fn notice_end(&mut self) {
        if self.incoming.is_end_stream() && !std::mem::replace(&mut self.ended, true) {
            self.completion.ended();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            self.completion.failed(true);
            return Poll::Ready(Some(Err(BodyError("the total timeout is over".into()))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            ready!(self.idle.poll(context));
            self.completion.failed(true);
            return Poll::Ready(Some(Err(BodyError("the response stalled".into()))));
        };
        self.idle.reset();
        match frame {
            Some(Ok(frame)) => {
                self.notice_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.completion.failed(false);
                Poll::Ready(Some(Err(BodyError(format!("the response broke off: {error}")))))
            }
            None => {
                if !std::mem::replace(&mut self.ended, true) {
                    self.completion.ended();
                }
                Poll::Ready(None)
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Own(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Forwarded(body) => body.poll(context),
            Self::Patient(body) => body.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Forwarded(body) => body.incoming.is_end_stream(),
            Self::Patient(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Forwarded(body) => body.incoming.size_hint(),
            Self::Patient(_) => SizeHint::default(),
        }
    }
}
