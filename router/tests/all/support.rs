//! Routers, endpoints and clients for the tests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use modelway_router::{RouteKey, Router, RouterError, RouterOptions, Source};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Long enough for a busy machine; no test waits that long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub type Reply = Response<BoxBody<Bytes, Infallible>>;

pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// An address that nothing listens on, and that nobody else gets while the test runs.
pub fn dead_address() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(socket);
    });
    address
}

pub fn reply(text: impl Into<Bytes>) -> Reply {
    Response::new(Full::new(text.into()).boxed())
}

/// An endpoint that answers with a function.
pub struct Endpoint {
    pub address: SocketAddr,
    pub served: Arc<AtomicU64>,
    stop: CancellationToken,
    stopped: JoinHandle<()>,
}

impl Endpoint {
    /// Answers 200 with its name, after reading the request's body.
    pub async fn named(name: &'static str) -> Self {
        Self::answering(move |request: Request<Incoming>| {
            Box::pin(async move {
                request.into_body().collect().await.unwrap();
                reply(name)
            })
        })
        .await
    }

    pub async fn answering<F>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> BoxFuture<'static, Reply> + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::new(AtomicU64::new(0));
        let stop = CancellationToken::new();
        let stopped = tokio::spawn(serve(listener, answer, served.clone(), stop.clone()));
        Self { address, served, stop, stopped }
    }

    /// Ends like a polite server: no new connections, requests in flight are answered, idle connections are closed.
    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.stopped).await.unwrap().unwrap();
    }
}

async fn serve<F>(listener: TcpListener, answer: F, served: Arc<AtomicU64>, stop: CancellationToken)
where
    F: Fn(Request<Incoming>) -> BoxFuture<'static, Reply> + Clone + Send + Sync + 'static,
{
    let tasks = tokio_util::task::TaskTracker::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            () = stop.cancelled() => break,
        };
        let (answer, served, stop) = (answer.clone(), served.clone(), stop.clone());
        tasks.spawn(async move {
            let service = service_fn(move |request| {
                served.fetch_add(1, Relaxed);
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection.with_upgrades());
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// A route table of one arm per `(name, weight, endpoints)`, sticky by `x-user`.
pub fn table(generation: i64, arms: &[(&str, u32, &[SocketAddr])]) -> Value {
    let arms: Vec<Value> = arms
        .iter()
        .map(|(name, weight, endpoints)| {
            let endpoints: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
            json!({ "name": name, "weight": weight, "endpoints": endpoints,
                "model": format!("registry/{name}@sha256:{name}") })
        })
        .collect();
    json!({ "version": 1, "generation": generation, "inference": "digits", "epoch": 1, "salt": "uid", "arms": arms,
        "sticky": [{ "header": "x-user" }] })
}

/// A running router with its route table in a file.
pub struct TestRouter {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub token: CancellationToken,
    pub ended: JoinHandle<Result<(), RouterError>>,
    file: PathBuf,
    _folder: tempfile::TempDir,
    _stop: DropGuard,
}

impl TestRouter {
    pub async fn start(table: &Value) -> Self {
        Self::start_with(table, |_| {}).await
    }

    pub async fn start_with(table: &Value, change: impl FnOnce(&mut RouterOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.json");
        std::fs::write(&file, table.to_string()).unwrap();
        let mut options = RouterOptions::new(loopback(), loopback(), Source::File(file.clone()));
        options.key = Some(RouteKey::new([7; 16]));
        options.drain = Duration::from_millis(500);
        options.deadline = Duration::from_secs(5);
        change(&mut options);
        let router = Router::bind(options).await.unwrap();
        let (address, admin) = (router.address(), router.admin_address());
        let token = CancellationToken::new();
        let ended = tokio::spawn(router.serve(token.clone()));
        let stop = token.clone().drop_guard();
        let started = Self { address, admin, token, ended, file, _folder: folder, _stop: stop };
        eventually("the router is ready", || async { get(admin, "/readyz").await.0 == 200 }).await;
        started
    }

    /// Writes another file; nothing is awaited. Replaced as a whole, as editors and config maps do.
    pub fn write(&self, text: &str) {
        let next = self.file.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &self.file).unwrap();
    }

    /// Puts another table in force.
    pub async fn put(&self, table: &Value) {
        self.write(&table.to_string());
        let generation = &table["generation"];
        eventually("the table is in force", || async { &self.config().await["generation"] == generation }).await;
    }

    pub async fn config(&self) -> Value {
        serde_json::from_str(&get(self.admin, "/config").await.1).unwrap()
    }

    pub async fn metric(&self, line: &str) -> f64 {
        let text = get(self.admin, "/metrics").await.1;
        let found = text.lines().find_map(|found| found.strip_prefix(line).map(|value| value.trim().parse().unwrap()));
        found.unwrap_or(0.0)
    }

    pub async fn arm_stats(&self, arm: &str) -> Value {
        let mut stream = EventStream::open(self.admin).await;
        stream.next().await["arms"][arm].clone()
    }
}

/// Reads the stats stream.
pub struct EventStream(Incoming, Vec<u8>);

impl EventStream {
    pub async fn open(admin: SocketAddr) -> Self {
        let request = Request::get(format!("http://{admin}/stats/stream")).body(Full::<Bytes>::default()).unwrap();
        Self(client().request(request).await.unwrap().into_body(), Vec::new())
    }

    pub async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.1.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.1.drain(..end + 2).collect();
                assert!(event.len() <= 4096 + 8, "an event of {} bytes", event.len());
                return serde_json::from_slice(event.strip_prefix(b"data: ").unwrap()).unwrap();
            }
            let frame = tokio::time::timeout(PATIENCE, self.0.frame()).await.unwrap().unwrap().unwrap();
            self.1.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The first event that fits, and how many came before.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next().await;
            if fits(&event) {
                return event;
            }
        }
    }
}

pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// Keeps connections and repeats nothing by itself.
pub fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http()
}

pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = Request::get(format!("http://{address}{path}")).body(Full::default()).unwrap();
    send(&client(), request).await.unwrap()
}

pub async fn send(client: &HttpClient, request: Request<Full<Bytes>>) -> Result<(u16, String), String> {
    let exchange = async {
        let response = client.request(request).await.map_err(|error| format!("{error:?}"))?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| "no answer".to_owned())?
}

/// An inference call of one user.
pub fn infer(address: SocketAddr, user: u64) -> Request<Full<Bytes>> {
    Request::post(format!("http://{address}/v2/models/digits/infer"))
        .header("x-user", format!("user-{user}"))
        .body(Full::from("{}"))
        .unwrap()
}

/// Sends bytes and reads until the other side closes, or for `limit`.
pub async fn raw(address: SocketAddr, bytes: &[u8], limit: Duration) -> (String, bool) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_until_closed(&mut stream, limit).await
}

/// What arrived, and whether the other side closed.
pub async fn read_until_closed(stream: &mut TcpStream, limit: Duration) -> (String, bool) {
    let mut received = Vec::new();
    let closed = tokio::time::timeout(limit, async {
        let mut part = [0; 4096];
        loop {
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => return,
                Ok(count) => received.extend_from_slice(&part[..count]),
            }
        }
    })
    .await
    .is_ok();
    (String::from_utf8_lossy(&received).into_owned(), closed)
}

/// Polls until it holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let polls = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, polls).await.is_ok(), "{what}: not within {PATIENCE:?}");
}

/// Clients that send without pause until they are stopped.
pub struct Load {
    stop: CancellationToken,
    sent: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub fn start(target: &tokio::sync::watch::Receiver<SocketAddr>, clients: u64) -> Self {
        let (stop, sent) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let one = |number| tokio::spawn(one(number, target.clone(), stop.clone(), sent.clone()));
        let tasks = (0..clients).map(one).collect();
        Self { stop, sent, tasks }
    }

    pub fn on(address: SocketAddr, clients: u64) -> Self {
        Self::start(&tokio::sync::watch::channel(address).1, clients)
    }

    /// Ends the load after a fair number of requests; every one must have been answered with 200.
    pub async fn finish(self) {
        eventually("a fair number of requests", || async { self.sent.load(Relaxed) > 100 }).await;
        self.stop.cancel();
        for task in self.tasks {
            let errors = task.await.unwrap();
            assert!(errors.is_empty(), "{errors:?}");
        }
    }
}

async fn one(
    number: u64,
    target: tokio::sync::watch::Receiver<SocketAddr>,
    stop: CancellationToken,
    sent: Arc<AtomicU64>,
) -> Vec<String> {
    let client = client();
    let mut errors = Vec::new();
    while !stop.is_cancelled() {
        let address = *target.borrow();
        let user = number * 1_000 + sent.fetch_add(1, Relaxed) % 100;
        match send(&client, infer(address, user)).await {
            Ok((200, _)) => {}
            Ok(other) => errors.push(format!("{other:?}")),
            Err(error) => errors.push(error),
        }
    }
    errors
}
