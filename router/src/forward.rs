//! A request on its way to an answer: wait, endpoint, attempt, once more if it is safe.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use modelway_route::ArmIndex;
use modelway_route::arm::Refusal;
use modelway_route::pick::pick;
use modelway_route::retry::{self, Failure, Repeat, Repeatable, Repeats, Seen};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::Problem;
use crate::answered::Answered;
use crate::attempt::{Attempt, Failed};
use crate::body::{RequestBody, ResponseBody, Upload};
use crate::clock;
use crate::comeback::Comeback;
use crate::endpoint::Endpoint;
use crate::hold::Place;
use crate::meter::{ErrorClass, RetryReason};
use crate::proxy::{Client, refuse};
use crate::record::{InFlight, Record};
use crate::routes::Routes;
use crate::server::Shared;
use crate::tunnel::Upgrade;
use crate::view::View;
use crate::wait::Wait;

/// How long an endpoint that reset a connection may take to leave the routes: news of a pod's end and the end itself
/// come on different ways, within a fraction of a second of each other.
const LEAVING: Duration = Duration::from_millis(250);

/// A request with everything that it needs.
pub struct Journey {
    /// The router.
    pub shared: Arc<Shared>,
    /// Where it came from.
    pub client: Client,
    /// Where it goes.
    pub wait: Wait,
    /// The request as endpoints see it.
    pub request: Request<RequestBody>,
    /// What becomes of a streamed body.
    pub upload: Option<Arc<Upload>>,
    /// The client's wish for another protocol.
    pub upgrade: Option<Upgrade>,
    /// What the request allows.
    pub repeatable: Repeatable,
    /// When all of it must have ended.
    pub deadline: Option<(Instant, Duration)>,
    /// What comes of it.
    pub record: Record,
}

impl Journey {
    /// The answer, whatever it is.
    pub async fn answer(self) -> Response<ResponseBody> {
        let Self { shared, client, wait, request, upload, upgrade, repeatable, deadline, record } = self;
        let mut tries = Tries {
            shared: &shared,
            client: &client,
            record: &record,
            upload: upload.as_deref(),
            repeatable,
            wait,
            repeats: Repeats::default(),
            avoid: None,
            comeback: Comeback::new(),
            place: None,
        };
        let result = match deadline {
            None => tries.run(request, upgrade).await,
            Some((deadline, total)) => match timeout_at(deadline, tries.run(request, upgrade)).await {
                Ok(result) => result,
                Err(_) => Err(Problem::timeout("total", total, "the predictor")),
            },
        };
        drop(tries);
        match result {
            Ok(answered) => answered.into_response(&shared, &client, record),
            Err(problem) => refuse(&shared, record, problem),
        }
    }
}

/// The attempts of one request.
struct Tries<'a> {
    shared: &'a Shared,
    client: &'a Client,
    record: &'a Record,
    upload: Option<&'a Upload>,
    repeatable: Repeatable,
    wait: Wait,
    repeats: Repeats,
    avoid: Option<Arc<Endpoint>>,
    comeback: Comeback,
    /// Where the request was meanwhile, if it had to wait for an endpoint to come back.
    place: Option<Place>,
}

impl Tries<'_> {
    async fn run(&mut self, mut request: Request<RequestBody>, upgrade: Option<Upgrade>) -> Result<Answered, Problem> {
        loop {
            let arm = self.wait.arm(self.shared, &view(&request, self.client), self.record).await?;
            let routes = self.wait.routes.clone();
            let endpoint = self.choose(&routes, arm)?;
            let place = self.wait.take_place().or(self.place.take());
            let in_flight = InFlight::begin(&routes.arms[arm.get()].meter, place);
            self.shared.activity.begin();
            let occupied = endpoint.begin();
            let (shared, upload, repeatable) = (self.shared, self.upload, self.repeatable);
            let attempt = Attempt { shared, routes: &routes, endpoint: &endpoint, upload, repeatable };
            let failed = match attempt.run(request, self.repeats.stale == 0).await {
                Ok((response, sender)) => {
                    self.judge(&routes, arm, &endpoint, response.status());
                    return Ok(Answered { response, sender, occupied, in_flight, upgrade, routes, arm });
                }
                Err(failed) => failed,
            };
            drop(occupied);
            let seen = self.look_again(&endpoint, &failed).await;
            drop(in_flight);
            request = self.again(&routes, arm, endpoint, failed, seen).await?;
            self.wait.follow(self.shared, &view(&request, self.client));
        }
    }

    fn choose(&self, routes: &Routes, arm: ArmIndex) -> Result<Arc<Endpoint>, Problem> {
        let endpoints = &routes.arms[arm.get()].endpoints;
        let tried = self.avoid.as_ref();
        let avoid = tried.and_then(|tried| endpoints.iter().position(|endpoint| Arc::ptr_eq(endpoint, tried)));
        let picked = pick(endpoints, avoid, clock::now(), &mut rand::rng());
        picked.map(|index| endpoints[index].clone()).ok_or_else(|| {
            let name = &routes.table.arms[arm.get()].name;
            Problem::refused(Refusal::NoEndpoint, name, self.record.started.elapsed())
        })
    }

    /// Whether the endpoint has left the routes; waits a moment for that where a repeat depends on it.
    async fn look_again(&self, endpoint: &Arc<Endpoint>, failed: &Failed) -> Seen {
        if failed.request.is_none() || !retry::depends_on_leaving(failed.failure, self.repeatable, self.repeats) {
            return Seen::Admitted;
        }
        let mut changes = self.shared.routes.changes();
        let left = async {
            while self.shared.routes.load().is_some_and(|routes| routes.admits(endpoint)) {
                // The sender lives in `shared`, so this never ends with an error.
                let _ = changes.changed().await;
            }
        };
        if timeout(LEAVING, left).await.is_ok() { Seen::Left } else { Seen::Admitted }
    }

    /// The request, if it may be sent again.
    async fn again(
        &mut self,
        routes: &Routes,
        arm: ArmIndex,
        endpoint: Arc<Endpoint>,
        failed: Failed,
        seen: Seen,
    ) -> Result<Request<RequestBody>, Problem> {
        let (failure, repeatable, repeats) = (failed.failure, self.repeatable, self.repeats);
        let repeat = match failed.request {
            Some(_) => retry::decide(failure, repeatable, repeats, seen),
            None => Repeat::No,
        };
        if !self.comeback.has_waited() {
            self.count_failure(routes, arm, &endpoint, &failed, repeat);
        }
        let request = match (repeat, failed.request) {
            (Repeat::Stale, Some(again)) => {
                self.repeats.stale += 1;
                again
            }
            (Repeat::Paid, Some(again)) if self.shared.withdraw(routes.table.retry) => {
                self.repeats.paid += 1;
                self.avoid = Some(endpoint);
                again
            }
            (_, Some(again)) if failure == Failure::Connect => {
                // Nothing of it was sent, so it may wait for the endpoint as it would for one that is not there yet.
                let meter = &routes.arms[arm.get()].meter;
                self.place = self.comeback.wait(self.shared, routes, meter, self.wait.bytes()).await;
                if self.place.is_none() {
                    return Err(failed.problem);
                }
                again
            }
            _ => return Err(failed.problem),
        };
        self.shared.metrics.retry(retry_reason(failure));
        Ok(request)
    }

    /// What a response's status says of its endpoint.
    fn judge(&self, routes: &Routes, arm: ArmIndex, endpoint: &Endpoint, status: StatusCode) {
        if status.is_server_error() {
            self.record.error(ErrorClass::Status5xx);
            self.fail(routes, arm, endpoint);
        } else {
            endpoint.succeeded();
        }
    }

    /// A stale connection is nobody's fault; a body that the client did not deliver is not the arm's.
    fn count_failure(&self, routes: &Routes, arm: ArmIndex, endpoint: &Endpoint, failed: &Failed, repeat: Repeat) {
        if repeat == Repeat::Stale || failed.problem.status.is_client_error() {
            return;
        }
        self.record.error(match failed.failure {
            _ if failed.problem.status == StatusCode::GATEWAY_TIMEOUT => ErrorClass::Timeout,
            Failure::Connect => ErrorClass::Connect,
            Failure::NotWritten { .. } | Failure::Reset { .. } => ErrorClass::Reset,
            Failure::Timeout => ErrorClass::Timeout,
        });
        self.fail(routes, arm, endpoint);
    }

    fn fail(&self, routes: &Routes, arm: ArmIndex, endpoint: &Endpoint) {
        if endpoint.failed(clock::now(), &routes.arms[arm.get()].endpoints) {
            tracing::warn!(endpoint = endpoint.address, "left out after failures in a row");
            self.shared.metrics.ejections.inc();
        }
    }
}

/// A request as the deciders see it.
pub fn view<'a>(request: &'a Request<RequestBody>, client: &Client) -> View<'a> {
    View { method: request.method(), uri: request.uri(), headers: request.headers(), client: client.address }
}

fn retry_reason(failure: Failure) -> RetryReason {
    match failure {
        Failure::Connect | Failure::Timeout => RetryReason::Connect,
        Failure::NotWritten { .. } => RetryReason::NotWritten,
        Failure::Reset { .. } => RetryReason::Reset,
    }
}
