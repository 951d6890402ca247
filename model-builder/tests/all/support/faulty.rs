//! A registry with faults: the embedded registry behind a server that breaks requests by script.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use modelway_registry::Registry;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How a request is broken.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answered with this status, without reaching the registry.
    Status(u16),
    /// Connection closed after this many bytes of the request's body; the registry keeps what came.
    ResetRequest(u64),
    /// Handled by the registry, then the connection is closed instead of an answer.
    LostAnswer,
    /// The answer's body ends after this many bytes.
    ResetResponse(u64),
    /// Uploads go on at this other server.
    OtherHost(SocketAddr),
}

/// Breaks the next `times` requests with this method whose path contains `path`.
#[derive(Debug, Clone)]
pub struct Rule {
    pub method: Method,
    pub path: &'static str,
    pub times: usize,
    pub fault: Fault,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub authorization: Option<String>,
    pub range: Option<String>,
}

struct State {
    router: axum::Router,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    /// Tokens are wanted; each is good for this many requests.
    tokens: Mutex<Option<(usize, usize)>>,
}

pub struct Faulty {
    pub address: SocketAddr,
    state: Arc<State>,
    _dir: Option<TempDir>,
    _tasks: JoinSet<()>,
}

impl Faulty {
    pub async fn start(rules: Vec<Rule>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let router = Registry::open(dir.path()).unwrap().router();
        Self::over(router, rules, Some(dir)).await
    }

    /// Another server with the same content.
    pub async fn twin(&self) -> Self {
        Self::over(self.state.router.clone(), Vec::new(), None).await
    }

    async fn over(router: axum::Router, rules: Vec<Rule>, dir: Option<TempDir>) -> Self {
        super::use_tls_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(State { router, rules: Mutex::new(rules), seen: Mutex::default(), tokens: Mutex::new(None) });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&state)));
        Self { address, state, _dir: dir, _tasks: tasks }
    }

    pub fn add(&self, rule: Rule) {
        self.state.rules.lock().push(rule);
    }

    /// From now on requests need a bearer token that is good for `uses` requests.
    pub fn want_tokens(&self, uses: usize) {
        *self.state.tokens.lock() = Some((uses, 0));
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().clone()
    }

    pub fn count(&self, method: &Method, path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == *method && seen.path.contains(path)).count()
    }

    pub fn unused_rules(&self) -> usize {
        self.state.rules.lock().iter().filter(|rule| rule.times > 0).count()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let address = stream.local_addr().unwrap();
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&state), address, request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection without an answer.
async fn answer(
    state: Arc<State>,
    address: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let text =
        |name: header::HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = text(header::AUTHORIZATION);
    let seen = Seen {
        method: method.clone(),
        path: path.clone(),
        authorization: authorization.clone(),
        range: text(header::RANGE),
    };
    state.seen.lock().push(seen);
    if let Some(response) = authorize(&state, address, &path, authorization.as_deref()) {
        return Ok(response);
    }
    let fault = next_fault(&state, &method, &path);
    let limit = match &fault {
        Some(Fault::Status(code)) => {
            let status = StatusCode::from_u16(*code).unwrap();
            // Read what is sent, so that the client sees the answer and not a reset.
            let _ = request.into_body().collect().await;
            return Ok(Response::builder().status(status).body(empty()).unwrap());
        }
        Some(Fault::ResetRequest(bytes)) => Some(*bytes),
        _ => None,
    };
    let request = request.map(|body| axum::body::Body::from_stream(cut(body, limit)));
    let response = state.router.clone().oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
    finish(fault.as_ref(), response)
}

fn finish(fault: Option<&Fault>, response: Response<axum::body::Body>) -> Result<Response<Body>, io::Error> {
    match fault {
        Some(Fault::ResetRequest(_) | Fault::LostAnswer) => Err(io::Error::other("scripted")),
        Some(Fault::ResetResponse(bytes)) => {
            let (parts, body) = response.into_parts();
            let frames = cut(body, Some(*bytes)).map(|part| part.map(Frame::data));
            Ok(Response::from_parts(parts, BodyExt::boxed_unsync(StreamBody::new(frames))))
        }
        Some(Fault::OtherHost(other)) => {
            let mut response = plain(response);
            if let Some(location) = response.headers().get(header::LOCATION).cloned() {
                let moved = format!("http://{other}{}", location.to_str().unwrap());
                response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&moved).unwrap());
            }
            Ok(response)
        }
        _ => Ok(plain(response)),
    }
}

fn plain(response: Response<axum::body::Body>) -> Response<Body> {
    response.map(|body| body.map_err(io::Error::other).boxed_unsync())
}

/// The body's data, ending with an error after `limit` bytes.
fn cut<B>(body: B, limit: Option<u64>) -> impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static
where
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut left = limit.unwrap_or(u64::MAX);
    let stream = body.into_data_stream().map(|part| part.map_err(io::Error::other));
    stream.flat_map(move |part| {
        let parts = match part {
            Ok(bytes) if bytes.len() as u64 > left => {
                let kept = bytes.slice(..usize::try_from(left).unwrap());
                left = 0;
                vec![Ok(kept), Err(io::Error::other("scripted"))]
            }
            Ok(bytes) => {
                left -= bytes.len() as u64;
                vec![Ok(bytes)]
            }
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(parts)
    })
}

fn empty() -> Body {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync()
}

fn next_fault(state: &State, method: &Method, path: &str) -> Option<Fault> {
    let mut rules = state.rules.lock();
    let rule = rules.iter_mut().find(|rule| rule.times > 0 && rule.method == *method && path.contains(rule.path))?;
    rule.times -= 1;
    Some(rule.fault.clone())
}

/// Gives tokens out and takes them; `None` lets the request pass.
fn authorize(state: &State, address: SocketAddr, path: &str, shown: Option<&str>) -> Option<Response<Body>> {
    let mut tokens = state.tokens.lock();
    let (uses, issued) = tokens.as_mut()?;
    if path == "/token" {
        *issued += 1;
        let body = format!("{{\"token\": \"t-{issued}-{uses}\", \"expires_in\": 300}}");
        return Some(Response::new(Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()));
    }
    let expected = format!("Bearer t-{issued}-{uses}");
    let spent =
        state.seen.lock().iter().filter(|seen| seen.authorization.as_deref() == Some(expected.as_str())).count();
    if *issued > 0 && shown == Some(expected.as_str()) && spent <= *uses {
        return None;
    }
    let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"test\"");
    let builder = Response::builder().status(StatusCode::UNAUTHORIZED).header(header::WWW_AUTHENTICATE, challenge);
    Some(builder.body(empty()).unwrap())
}
