//! Every request to the API server passes here: counted by verb, kind and code, and none waits for ever.

use std::time::Duration;

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use modelway_plan::Kind;
use tower::BoxError;

use crate::metrics::Metrics;

/// Longest wait for a whole answer, and for the head of a watch. Writes have a shorter limit of their own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client like the given one whose requests are counted and bounded in time.
pub fn client(inner: &Client, metrics: Metrics) -> Client {
    let (namespace, valid_until) = (inner.default_namespace().to_owned(), *inner.valid_until());
    let inner = inner.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, metrics) = (inner.clone(), metrics.clone());
        async move {
            let call = Call::of(&request);
            let answer = send(&inner, request, call.verb == "watch").await;
            let code = answer.as_ref().map_or("error", |answer| code(answer.status().as_u16()));
            metrics.requested(call.verb, call.kind, code);
            answer
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

async fn send(client: &Client, request: Request<Body>, is_watch: bool) -> Result<Response<Body>, BoxError> {
    let answer = async {
        let response = client.send(request).await?;
        if is_watch {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        Ok::<_, kube::Error>(Response::from_parts(head, Body::from(body.collect_bytes().await?)))
    };
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(format!("the API server gave no answer within {TIMEOUT:?}").into()),
    }
}

/// What a request is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Call {
    verb: &'static str,
    kind: &'static str,
}

impl Call {
    fn of(request: &Request<Body>) -> Self {
        let (resource, is_one) = resource(request.uri().path());
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let verb = match *request.method() {
            Method::GET if is_watch => "watch",
            Method::GET if is_one => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        };
        Self { verb, kind: kind(resource) }
    }
}

/// The plural of a path and whether one object is named: `/api/v1/namespaces/a/pods/b` is (pods, true).
fn resource(path: &str) -> (&str, bool) {
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    let skipped = if parts.next() == Some("api") { 1 } else { 2 };
    let mut parts: Vec<&str> = parts.skip(skipped).collect();
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    (parts.first().copied().unwrap_or_default(), parts.len() > 1)
}

fn kind(plural: &str) -> &'static str {
    let known = Kind::ALL.into_iter().find(|kind| kind.names().3 == plural).map(Kind::as_str);
    known.unwrap_or(match plural {
        "events" => "Event",
        "leases" => "Lease",
        "customresourcedefinitions" => "CustomResourceDefinition",
        "" => "discovery",
        _ => "other",
    })
}

/// Codes by themselves where they mean something to a person, the rest by class.
fn code(code: u16) -> &'static str {
    match code {
        200 => "200",
        201 => "201",
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        409 => "409",
        410 => "410",
        422 => "422",
        429 => "429",
        500 => "500",
        503 => "503",
        504 => "504",
        202..=299 => "2xx",
        300..=399 => "3xx",
        402..=499 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str) -> (&'static str, &'static str) {
        let call = Call::of(&Request::builder().method(method).uri(uri).body(Body::empty()).unwrap());
        (call.verb, call.kind)
    }

    #[test]
    fn requests_are_named_by_verb_and_kind() {
        assert_eq!(call("GET", "/api/v1/pods?limit=500"), ("list", "Pod"));
        assert_eq!(call("GET", "/api/v1/namespaces/a/pods?watch=true&x=y"), ("watch", "Pod"));
        assert_eq!(call("GET", "/api/v1/namespaces/a"), ("get", "Namespace"));
        assert_eq!(call("GET", "/api/v1/namespaces"), ("list", "Namespace"));
        assert_eq!(
            call("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/status?force=true"),
            ("patch", "Deployment")
        );
        assert_eq!(call("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"), ("update", "Lease"));
        assert_eq!(call("GET", "/apis/apps/v1"), ("list", "discovery"));
        assert_eq!(call("POST", "/apis/x.y/v1/namespaces/a/whatever"), ("create", "other"));
    }
}
