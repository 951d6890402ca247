//! An endpoint's answer on its way to the client.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::{Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use modelway_route::ArmIndex;

use crate::answer::Problem;
use crate::body::{RequestBody, ResponseBody};
use crate::endpoint::Occupied;
use crate::headers;
use crate::proxy::Client;
use crate::record::{Ending, Ends, InFlight, Record};
use crate::routes::Routes;
use crate::server::Shared;
use crate::tunnel::{self, Upgrade};

/// A response's head, and everything that is held until its body has ended.
pub struct Answered {
    /// The endpoint's response.
    pub response: Response<Incoming>,
    /// Its connection.
    pub sender: SendRequest<RequestBody>,
    /// The request's place at the endpoint.
    pub occupied: Occupied,
    /// Its place at the arm.
    pub in_flight: InFlight,
    /// The client's wish for another protocol.
    pub upgrade: Option<Upgrade>,
    /// The routes by which it went.
    pub routes: Arc<Routes>,
    /// The arm that answered.
    pub arm: ArmIndex,
}

impl Answered {
    /// The client's response; `record` ends with its body.
    pub fn into_response(self, shared: &Shared, client: &Client, mut record: Record) -> Response<ResponseBody> {
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
        client.connection.tunnelled.store(true, Relaxed);
        let upstream = parts.extensions.remove();
        tunnel::spawn(&shared.connections, upgrade, upstream, ends);
        Response::from_parts(parts, ResponseBody::Own(Full::default()))
    }
}
