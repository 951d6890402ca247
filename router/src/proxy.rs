//! The steps of a request: limits -> rule, unit, arm -> body -> wait or fail over -> endpoint -> forward, once more if it
//! is safe -> record. Every choice is made in `modelway_route`; this file and [`crate::forward`] join them with the
//! sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use modelway_route::arm::Refusal;
use modelway_route::request::{is_idempotent, is_inference_call};
use modelway_route::request_id::RequestId;
use modelway_route::retry::{REPLAY_LIMIT, Repeatable};
use tokio::time::timeout_at;

use crate::answer::Problem;
use crate::body::{RequestBody, ResponseBody, Upload, UploadLimits, read_small};
use crate::connection::ConnectionState;
use crate::forward::Journey;
use crate::record::Record;
use crate::routes::Routes;
use crate::server::Shared;
use crate::tunnel::Upgrade;
use crate::view::View;
use crate::wait::Wait;
use crate::{clock, headers, keep_alive};

/// What a request with a streamed body keeps in memory while it waits: the connection reads this far ahead.
const READ_AHEAD: u64 = 64 * 1024;

/// The connection that a request came on.
#[derive(Clone)]
pub struct Client {
    /// Address of the other side.
    pub address: IpAddr,
    /// What is known of the connection itself.
    pub connection: Arc<ConnectionState>,
}

/// Answers one request.
pub async fn handle(shared: Arc<Shared>, client: Client, request: Request<Incoming>) -> Response<ResponseBody> {
    let id = request_id(&shared);
    // Boxed, so that the many requests that wait in here stay small.
    let mut response = match Box::pin(steps(&shared, client, request, &id)).await {
        Step::Answered(response) => response,
        Step::Patient(journey) => {
            let started = journey.record.started;
            keep_alive::respond(Box::pin(journey.answer()), started, shared.quiet).await
        }
    };
    response.headers_mut().insert(headers::REQUEST_ID, id);
    if shared.draining.load(Relaxed) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Where the steps of a request end.
enum Step {
    /// There is a response.
    Answered(Response<ResponseBody>),
    /// The request has to wait, and its client understands a response that starts before the answer is there.
    Patient(Box<Journey>),
}

async fn steps(shared: &Arc<Shared>, client: Client, request: Request<Incoming>, id: &HeaderValue) -> Step {
    let mut record = Record::start();
    let (mut wait, request) = match assign(shared, &client, request, &mut record) {
        Ok(assigned) => assigned,
        Err(problem) => return Step::Answered(refuse(shared, record, problem)),
    };
    let deadline = wait.routes.table.timeouts.total.map(|total| (record.started + total, total));
    let prepared = prepare(shared, &client, &wait.routes, request, id);
    let prepared = match deadline {
        None => prepared.await,
        Some((deadline, total)) => match timeout_at(deadline, prepared).await {
            Ok(prepared) => prepared,
            Err(_) => Err(Problem::timeout("total", total, "the predictor")),
        },
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(problem) => return Step::Answered(refuse(shared, record, problem)),
    };
    let Prepared { request, upload, upgrade, bytes, repeatable } = prepared;
    // Whoever has sent all of its body is seen to leave by the HTTP library.
    wait.keeps(bytes, upload.is_some().then(|| client.connection.clone()));
    let shared = shared.clone();
    let mut journey = Journey { shared, client, wait, request, upload, upgrade, repeatable, deadline, record };
    if journey.upgrade.is_none() && journey.wait.must_wait() && keep_alive::is_understood(&journey.request) {
        // Comments in clear come first, so the answer must not be packed.
        journey.request.headers_mut().remove(header::ACCEPT_ENCODING);
        return Step::Patient(Box::new(journey));
    }
    Step::Answered(journey.answer().await)
}

/// The arm of a request.
fn assign<B: Body>(
    shared: &Shared,
    client: &Client,
    request: Request<B>,
    record: &mut Record,
) -> Result<(Wait, Request<B>), Problem> {
    check_limits(shared, &request)?;
    let no_table = || Problem::unavailable("this router has no route table yet", "1");
    let routes = shared.routes.load().ok_or_else(no_table)?;
    let random = rand::random();
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let order = routes.table.assign(&View { method, uri, headers, client: client.address }, random).order;
    let Some(assigned) = order.first() else {
        return Err(Problem::refused(Refusal::NoWeight, "", record.started.elapsed()));
    };
    record.assign(&routes.arms[assigned.get()].meter);
    shared.requests.fetch_add(1, Relaxed);
    Ok((Wait::new(routes, order, random, record.started), request))
}

/// The router's own answer for a request that gets none of an endpoint.
pub fn refuse(shared: &Shared, mut record: Record, problem: Problem) -> Response<ResponseBody> {
    if record.arm.is_none() {
        shared.metrics.unrouted.inc();
    }
    record.status = Some(problem.status);
    tracing::debug!(status = problem.status.as_u16(), error = problem.error, "request not answered");
    problem.into_response()
}

fn check_limits<B: Body>(shared: &Shared, request: &Request<B>) -> Result<(), Problem> {
    if request.method() == Method::CONNECT {
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not served; send the request itself"));
    }
    let expectation = request.headers().get(header::EXPECT);
    if expectation.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Problem::new(StatusCode::EXPECTATION_FAILED, "expect: only 100-continue is known"));
    }
    let declared = request.body().size_hint().exact();
    if let (Some(limit), Some(declared)) = (shared.limits.body_bytes, declared)
        && declared > limit
    {
        let error = format!("the body has {declared} bytes, at most {limit} are taken");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error));
    }
    Ok(())
}

/// A request whose body is at hand or ready to stream.
struct Prepared {
    request: Request<RequestBody>,
    upload: Option<Arc<Upload>>,
    upgrade: Option<Upgrade>,
    /// Bytes that it keeps in memory.
    bytes: u64,
    repeatable: Repeatable,
}

async fn prepare(
    shared: &Shared,
    client: &Client,
    routes: &Routes,
    request: Request<Incoming>,
    id: &HeaderValue,
) -> Result<Prepared, Problem> {
    let (mut parts, incoming) = request.into_parts();
    let limits = UploadLimits { idle: routes.table.timeouts.idle, bytes: shared.limits.body_bytes };
    let upgrade = Upgrade::take(&mut parts);
    let declared = incoming.size_hint().exact();
    let (body, upload) = match declared {
        Some(length) if length <= REPLAY_LIMIT => {
            let length = usize::try_from(length).unwrap_or_default();
            let whole = read_small(incoming, length, limits).await.map_err(Problem::upload)?;
            (RequestBody::Kept(Full::new(whole)), None)
        }
        _ => {
            let (body, upload) = RequestBody::streamed(incoming, limits);
            (body, Some(upload))
        }
    };
    let repeatable = Repeatable {
        idempotent: is_idempotent(parts.method.as_str()),
        inference: is_inference_call(parts.method.as_str(), parts.uri.path()),
        body_kept: upload.is_none(),
    };
    let bytes = declared.unwrap_or(READ_AHEAD).min(READ_AHEAD);
    let mut request = Request::from_parts(parts, body);
    outgoing(&mut request, client, upgrade.as_ref(), id)?;
    Ok(Prepared { request, upload, upgrade, bytes, repeatable })
}

fn outgoing(
    request: &mut Request<RequestBody>,
    client: &Client,
    upgrade: Option<&Upgrade>,
    id: &HeaderValue,
) -> Result<(), Problem> {
    *request.version_mut() = Version::HTTP_11;
    request.headers_mut().remove(header::EXPECT);
    headers::strip(request.headers_mut());
    if !headers::to_origin_form(request) {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the target carries user information"));
    }
    let headers = request.headers_mut();
    headers::set_forwarded(headers, client.address);
    headers.insert(headers::REQUEST_ID, id.clone());
    if let Some(upgrade) = upgrade {
        headers::ask_upgrade(headers, upgrade.protocol.clone());
    }
    Ok(())
}

fn request_id(shared: &Shared) -> HeaderValue {
    let epoch = shared.routes.epoch();
    let id = RequestId { epoch, milliseconds: clock::unix_milliseconds(), random: rand::random() };
    HeaderValue::from_bytes(&id.encode(shared.routes.key())).expect("hexadecimal digits are visible ASCII")
}
