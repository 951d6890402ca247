//! One try to get a response's head from one endpoint.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use modelway_route::retry::{Failure, Repeatable};

use crate::answer::Problem;
use crate::body::{RequestBody, Upload};
use crate::endpoint::Endpoint;
use crate::routes::Routes;
use crate::server::Shared;
use crate::upstream::{ConnectError, Connection, connect};

/// One try on one endpoint.
pub struct Attempt<'a> {
    /// The router.
    pub shared: &'a Shared,
    /// The snapshot of this try.
    pub routes: &'a Routes,
    /// Where it goes.
    pub endpoint: &'a Endpoint,
    /// What became of a streamed body.
    pub upload: Option<&'a Upload>,
    /// What the request allows.
    pub repeatable: Repeatable,
}

/// A try that brought no response.
pub struct Failed {
    /// How it ended.
    pub failure: Failure,
    /// The answer if this was the last try.
    pub problem: Problem,
    /// The request, where it can be sent again.
    pub request: Option<Request<RequestBody>>,
}

impl Attempt<'_> {
    /// Sends the request on a kept connection, or a new one, and waits for the response's head.
    pub async fn run(
        &self,
        request: Request<RequestBody>,
        may_reuse: bool,
    ) -> Result<(Response<Incoming>, SendRequest<RequestBody>), Failed> {
        let kept = may_reuse.then(|| self.endpoint.pool.take()).flatten();
        let mut connection = match kept {
            Some(kept) => kept,
            None => match self.connect().await {
                Ok(opened) => opened,
                Err(problem) => return Err(Failed { failure: Failure::Connect, problem, request: Some(request) }),
            },
        };
        let spare = self.spare(&request);
        match self.response_head(&mut connection, request).await {
            Ok(response) => Ok((response, connection.sender)),
            Err(mut failed) => {
                failed.request = failed.request.or(spare);
                Err(failed)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Problem> {
        let address = &self.endpoint.address;
        let opened = connect(address, self.routes.table.timeouts.connect, &self.shared.connections).await;
        opened.map_err(|error| match error {
            ConnectError::Timeout(limit) => Problem::timeout("connect", limit, address),
            ConnectError::Io(_) | ConnectError::Http(_) => {
                Problem::new(StatusCode::BAD_GATEWAY, format!("cannot connect to {address}: {error}"))
            }
        })
    }

    /// A copy for a second attempt, made only where one may follow.
    fn spare(&self, request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
        if !self.repeatable.idempotent && !self.repeatable.inference {
            return None;
        }
        let mut copy = Request::new(request.body().replay()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.headers_mut() = request.headers().clone();
        Some(copy)
    }

    async fn response_head(
        &self,
        connection: &mut Connection,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Failed> {
        let reused = connection.reused;
        let mut sent = std::pin::pin!(connection.sender.try_send_request(request));
        let limit = self.routes.table.timeouts.first_byte;
        let result = match limit {
            None => sent.await,
            Some(limit) => match self.within(limit, sent.as_mut()).await {
                Some(result) => result,
                None => return Err(self.timed_out(limit)),
            },
        };
        let address = &self.endpoint.address;
        result.map_err(|mut error| {
            let request = error.take_message();
            let failure = if request.is_some() { Failure::NotWritten { reused } } else { Failure::Reset { reused } };
            let problem = match self.upload.and_then(Upload::failure) {
                Some(upload) => Problem::upload(upload),
                None => Problem::new(
                    StatusCode::BAD_GATEWAY,
                    format!("{address} ended the connection before a response: {}", error.error()),
                ),
            };
            Failed { failure, problem, request }
        })
    }

    /// The time runs from the end of the request's body.
    async fn within<F: Future + Unpin>(&self, limit: Duration, mut sent: F) -> Option<F::Output> {
        if let Some(upload) = self.upload {
            tokio::select! {
                result = &mut sent => return Some(result),
                () = upload.done.cancelled() => {}
            }
        }
        tokio::time::timeout(limit, sent).await.ok()
    }

    fn timed_out(&self, limit: Duration) -> Failed {
        let problem = Problem::timeout("firstByte", limit, &self.endpoint.address);
        Failed { failure: Failure::Timeout, problem, request: None }
    }
}
