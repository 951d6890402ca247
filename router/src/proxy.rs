//! The steps of a request: limits -> rule, unit, arm -> body -> hold or fail over -> endpoint -> forward, once more if it
//! is safe -> record. Every choice is made in `modelway_route`; this file joins them with the sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::SendRequest;
use modelway_route::arm::{Decision, Refusal, decide};
use modelway_route::pick::pick;
use modelway_route::request::{is_idempotent, is_inference_call};
use modelway_route::request_id::RequestId;
use modelway_route::retry::{self, Failure, REPLAY_LIMIT, Repeat, Repeatable, Repeats};
use modelway_route::table::AssignedBy;
use modelway_route::{ArmIndex, Order};
use tokio::time::Instant;

use crate::answer::Problem;
use crate::attempt::{Attempt, Failed};
use crate::body::{RequestBody, ResponseBody, Upload, UploadLimits, read_small};
use crate::comeback::{Comeback, follow};
use crate::endpoint::{Endpoint, Occupied};
use crate::meter::{ErrorClass, RetryReason};
use crate::record::{Ending, Ends, InFlight, Record};
use crate::routes::Routes;
use crate::server::Shared;
use crate::tunnel::{self, Upgrade};
use crate::view::View;
use crate::{clock, headers};

/// The connection that a request came on.
#[derive(Clone)]
pub struct Client {
    /// Address of the other side.
    pub address: IpAddr,
    /// Set when the connection leaves HTTP.
    pub tunnelled: Arc<AtomicBool>,
}

/// Answers one request.
pub async fn handle(shared: Arc<Shared>, client: Client, request: Request<Incoming>) -> Response<ResponseBody> {
    let mut record = Record::start();
    let id = request_id(&shared);
    let mut response = match steps(&shared, &client, request, &id, &mut record).await {
        Ok(answered) => answered.into_response(&shared, &client, record),
        Err(problem) => {
            if record.arm.is_none() {
                shared.metrics.unrouted.inc();
            }
            record.status = Some(problem.status);
            tracing::debug!(status = problem.status.as_u16(), error = problem.error, "request not answered");
            problem.into_response()
        }
    };
    response.headers_mut().insert(headers::REQUEST_ID, id);
    if shared.draining.load(Relaxed) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn steps(
    shared: &Arc<Shared>,
    client: &Client,
    request: Request<Incoming>,
    id: &HeaderValue,
    record: &mut Record,
) -> Result<Answered, Problem> {
    check_limits(shared, &request)?;
    let no_table = || Problem::unavailable("this router has no route table yet", "1");
    let routes = shared.routes.load().ok_or_else(no_table)?;
    let random = rand::random();
    let (parts, incoming) = request.into_parts();
    let order = routes.table.assign(&View { parts: &parts, client: client.address }, random).order;
    let Some(assigned) = order.first() else {
        return Err(Problem::refused(Refusal::NoWeight, ""));
    };
    record.assign(&routes.arms[assigned.get()].meter);
    shared.requests.fetch_add(1, Relaxed);
    let deadline = routes.table.timeouts.total.map(|total| (record.started + total, total));
    let all = async {
        let prepared = prepare(shared, &routes, parts, incoming).await?;
        let (routes, arm) = hold_or_fail_over(shared, client, routes, order, random, &prepared, record).await?;
        forward(shared, client, routes, arm, prepared, id, record).await
    };
    // Boxed, so that the many requests that wait in here stay small.
    let all = Box::pin(all);
    match deadline {
        None => all.await,
        Some((deadline, total)) => match tokio::time::timeout_at(deadline, all).await {
            Ok(result) => result,
            Err(_) => Err(Problem::timeout("total", total, "the predictor")),
        },
    }
}

fn check_limits(shared: &Shared, request: &Request<Incoming>) -> Result<(), Problem> {
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
    parts: Parts,
    body: RequestBody,
    upload: Option<Arc<Upload>>,
    upgrade: Option<Upgrade>,
    bytes: u64,
    repeatable: Repeatable,
}

async fn prepare(shared: &Shared, routes: &Routes, mut parts: Parts, incoming: Incoming) -> Result<Prepared, Problem> {
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
    Ok(Prepared { parts, body, upload, upgrade, bytes: declared.unwrap_or(0), repeatable })
}

/// Waits until the assigned arm can answer, or names the one that answers in its place.
async fn hold_or_fail_over(
    shared: &Shared,
    client: &Client,
    mut routes: Arc<Routes>,
    mut order: Order,
    random: u64,
    prepared: &Prepared,
    record: &Record,
) -> Result<(Arc<Routes>, ArmIndex), Problem> {
    let since = Instant::now();
    let mut held = None;
    let mut changes = None;
    loop {
        let name = order.first().map(|arm| routes.table.arms[arm.get()].name.as_str()).unwrap_or_default();
        let hold = routes.table.hold;
        match decide(&order, |arm| routes.now(arm), since.elapsed(), hold.max_age) {
            Decision::Forward(arm) => return Ok((routes, arm)),
            Decision::FailOver(arm) => {
                record.error(ErrorClass::Failover);
                return Ok((routes, arm));
            }
            Decision::Refuse(refusal) => {
                record.error(ErrorClass::NoEndpoint);
                return Err(Problem::refused(refusal, name));
            }
            Decision::Hold(limit) => {
                if held.is_none() {
                    let place = record.arm.as_ref().and_then(|arm| shared.hold.enter(prepared.bytes, hold, arm));
                    held = Some(place.ok_or_else(|| {
                        record.error(ErrorClass::NoEndpoint);
                        Problem::unavailable(
                            format!("predictor `{name}` is not ready, and too many requests wait"),
                            "1",
                        )
                    })?);
                }
                let first_time = changes.is_none();
                let changes = changes.get_or_insert_with(|| shared.routes.changes());
                // The first time round, a change may have come before the subscription.
                if !first_time && tokio::time::timeout_at(since + limit, changes.changed()).await.is_err() {
                    continue;
                }
            }
        }
        let Some(newer) = shared.routes.load() else { continue };
        let kept = order.first().and_then(|arm| newer.table.arm_named(&routes.table.arms[arm.get()].name));
        let view = View { parts: &prepared.parts, client: client.address };
        let assignment = newer.table.assign(&view, random);
        order = match (kept, assignment.by) {
            (None, _) => assignment.order,
            (Some(arm), AssignedBy::Rule) => Order::only(arm),
            (Some(arm), AssignedBy::Unit | AssignedBy::Chance) => assignment.order.starting_with(arm),
        };
        routes = newer;
    }
}

/// A response's head, and everything that is held until its body has ended.
struct Answered {
    response: Response<Incoming>,
    sender: SendRequest<RequestBody>,
    occupied: Occupied,
    in_flight: InFlight,
    upgrade: Option<Upgrade>,
    routes: Arc<Routes>,
    arm: ArmIndex,
}

async fn forward(
    shared: &Arc<Shared>,
    client: &Client,
    mut routes: Arc<Routes>,
    arm: ArmIndex,
    prepared: Prepared,
    id: &HeaderValue,
    record: &Record,
) -> Result<Answered, Problem> {
    let Prepared { parts, body, upload, upgrade, repeatable, bytes } = prepared;
    let mut request = outgoing(parts, body, client, upgrade.as_ref(), id)?;
    let name = routes.table.arms[arm.get()].name.clone();
    let mut arm = arm;
    let mut repeats = Repeats::default();
    let mut avoid: Option<Arc<Endpoint>> = None;
    let mut comeback = Comeback::new();
    loop {
        let Some(endpoint) = choose(&routes, arm, avoid.as_ref()) else {
            if !comeback.wait(shared, &routes, arm, bytes).await {
                record.error(ErrorClass::NoEndpoint);
                return Err(Problem::refused(Refusal::NoEndpoint, &name));
            }
            follow(shared, &name, &mut routes, &mut arm);
            continue;
        };
        let in_flight = InFlight::begin(&routes.arms[arm.get()].meter);
        let occupied = endpoint.begin();
        let attempt = Attempt { shared, routes: &routes, endpoint: &endpoint, upload: upload.as_deref(), repeatable };
        let failed = match attempt.run(request, repeats.stale == 0).await {
            Ok((response, sender)) => {
                judge(shared, &routes, arm, &endpoint, response.status(), record);
                return Ok(Answered { response, sender, occupied, in_flight, upgrade, routes, arm });
            }
            Err(failed) => failed,
        };
        let repeat = failed.request.as_ref().map_or(Repeat::No, |_| retry::decide(failed.failure, repeatable, repeats));
        if !comeback.has_waited() {
            count_failure(shared, &routes, arm, &endpoint, &failed, repeat, record);
        }
        request = match (repeat, failed.request) {
            (Repeat::Stale, Some(again)) => {
                repeats.stale += 1;
                again
            }
            (Repeat::Paid, Some(again)) if shared.withdraw(routes.table.retry) => {
                repeats.paid += 1;
                avoid = Some(endpoint);
                again
            }
            (_, Some(again)) if failed.failure == Failure::Connect => {
                // Nothing of it was sent, so it may wait for the endpoint as it would for one that is not there yet.
                if !comeback.wait(shared, &routes, arm, bytes).await {
                    return Err(failed.problem);
                }
                again
            }
            _ => return Err(failed.problem),
        };
        shared.metrics.retry(retry_reason(failed.failure));
        follow(shared, &name, &mut routes, &mut arm);
    }
}

fn choose(routes: &Routes, arm: ArmIndex, avoid: Option<&Arc<Endpoint>>) -> Option<Arc<Endpoint>> {
    let endpoints = &routes.arms[arm.get()].endpoints;
    let avoid = avoid.and_then(|tried| endpoints.iter().position(|endpoint| Arc::ptr_eq(endpoint, tried)));
    pick(endpoints, avoid, clock::now(), &mut rand::rng()).map(|index| endpoints[index].clone())
}

fn outgoing(
    mut parts: Parts,
    body: RequestBody,
    client: &Client,
    upgrade: Option<&Upgrade>,
    id: &HeaderValue,
) -> Result<Request<RequestBody>, Problem> {
    parts.version = Version::HTTP_11;
    parts.headers.remove(header::EXPECT);
    headers::strip(&mut parts.headers);
    let mut request = Request::from_parts(parts, body);
    if !headers::to_origin_form(&mut request) {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the target carries user information"));
    }
    let headers = request.headers_mut();
    headers::set_forwarded(headers, client.address);
    headers.insert(headers::REQUEST_ID, id.clone());
    if let Some(upgrade) = upgrade {
        headers::ask_upgrade(headers, upgrade.protocol.clone());
    }
    Ok(request)
}

/// What a response's status says of its endpoint.
fn judge(shared: &Shared, routes: &Routes, arm: ArmIndex, endpoint: &Endpoint, status: StatusCode, record: &Record) {
    if status.is_server_error() {
        record.error(ErrorClass::Status5xx);
        fail(shared, routes, arm, endpoint);
    } else {
        endpoint.succeeded();
    }
}

fn fail(shared: &Shared, routes: &Routes, arm: ArmIndex, endpoint: &Endpoint) {
    if endpoint.failed(clock::now(), &routes.arms[arm.get()].endpoints) {
        tracing::warn!(endpoint = endpoint.address, "left out after failures in a row");
        shared.metrics.ejections.inc();
    }
}

/// A stale connection is nobody's fault; a body that the client did not deliver is not the arm's.
fn count_failure(
    shared: &Shared,
    routes: &Routes,
    arm: ArmIndex,
    endpoint: &Endpoint,
    failed: &Failed,
    repeat: Repeat,
    record: &Record,
) {
    if repeat == Repeat::Stale || failed.problem.status.is_client_error() {
        return;
    }
    record.error(match failed.failure {
        _ if failed.problem.status == StatusCode::GATEWAY_TIMEOUT => ErrorClass::Timeout,
        Failure::Connect => ErrorClass::Connect,
        Failure::NotWritten { .. } | Failure::Reset { .. } => ErrorClass::Reset,
        Failure::Timeout => ErrorClass::Timeout,
    });
    fail(shared, routes, arm, endpoint);
}

fn retry_reason(failure: Failure) -> RetryReason {
    match failure {
        Failure::Connect | Failure::Timeout => RetryReason::Connect,
        Failure::NotWritten { .. } => RetryReason::NotWritten,
        Failure::Reset { .. } => RetryReason::Reset,
    }
}

impl Answered {
    fn into_response(self, shared: &Shared, client: &Client, mut record: Record) -> Response<ResponseBody> {
        let Self { response, sender, occupied, in_flight, upgrade, routes, arm } = self;
        let (mut parts, incoming) = response.into_parts();
        record.status = Some(parts.status);
        parts.version = Version::HTTP_11;
        let protocol = parts.headers.get(header::UPGRADE).cloned();
        headers::strip(&mut parts.headers);
        let of = &routes.arms[arm.get()];
        if let Some(model) = &of.model_header {
            parts.headers.insert(headers::MODEL, model.clone());
        }
        if let Some(name) = of.name_header.as_ref().filter(|_| routes.table.debug_headers) {
            parts.headers.insert(headers::ARM, name.clone());
        }
        let deadline = routes.table.timeouts.total.map(|total| record.started + total);
        let idle = routes.table.timeouts.idle;
        let mut ending = Ending(Some(Ends { record, occupied, in_flight, sender }));
        if parts.status != StatusCode::SWITCHING_PROTOCOLS {
            let body = ResponseBody::forwarded(incoming, idle, deadline, Box::new(ending));
            return Response::from_parts(parts, body);
        }
        let (Some(upgrade), Some(protocol), Some(ends)) = (upgrade, protocol, ending.0.take()) else {
            return Problem::new(StatusCode::BAD_GATEWAY, "the endpoint changed protocols unasked").into_response();
        };
        headers::ask_upgrade(&mut parts.headers, protocol);
        client.tunnelled.store(true, Relaxed);
        let upstream = parts.extensions.remove();
        tunnel::spawn(&shared.connections, upgrade, upstream, ends);
        Response::from_parts(parts, ResponseBody::Own(Full::default()))
    }
}

fn request_id(shared: &Shared) -> HeaderValue {
    let epoch = shared.routes.epoch();
    let id = RequestId { epoch, milliseconds: clock::unix_milliseconds(), random: rand::random() };
    HeaderValue::from_bytes(&id.encode(shared.routes.key())).expect("hexadecimal digits are visible ASCII")
}
