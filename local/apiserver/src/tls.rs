//! Serving over TLS: who may come in, and the loop that lets them.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::pki::{Pki, Token};

/// Watches hold their connection, so this is far above the pods of one machine.
const CONNECTIONS: usize = 1024;
/// A client on the same machine needs milliseconds.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a head may take, idling between requests included: longer than the 90 seconds after which clients give up
/// an idle connection themselves, so that none meets a request on its way.
const HEAD: Duration = Duration::from_mins(2);
/// Requests in flight get this long at shutdown. Watches end by themselves when the server stops.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Half a minute without one accepted connection.
const ACCEPT_FAILURES: u32 = 600;
/// Streams of one HTTP/2 connection: one client's watches.
const STREAMS: u32 = 512;

const PLAIN_HTTP: &str = "Client sent an HTTP request to an HTTPS server: use https:// and the kubeconfig of the data \
                          folder.\n";

/// Serves `router` to clients that know the token, until `shutdown`. Connections that do not end then are closed after
/// two seconds.
async fn serve(
    listener: TcpListener,
    router: axum::Router,
    pki: &Pki,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let server = Server {
        acceptor: TlsAcceptor::from(pki.server_config()),
        router: protected(router, pki.token().clone()),
        shutdown,
    };
    let mut connections = JoinSet::new();
    let ended = server.accept_all(&listener, &mut connections).await;
    drop(listener);
    let drained = timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        connections.shutdown().await;
    }
    ended
}

/// Why serving ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("the API server can accept no more connections: {source}; raise the limit of open files (ulimit -n)")]
pub struct ServeError {
    source: io::Error,
}

#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("no TLS handshake within {HANDSHAKE:?}")]
    Slow,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Clone)]
struct Server {
    acceptor: TlsAcceptor,
    router: axum::Router,
    shutdown: CancellationToken,
}

impl Server {
    /// Accepts until the shutdown; each connection is a task of its own.
    async fn accept_all(&self, listener: &TcpListener, connections: &mut JoinSet<()>) -> Result<(), ServeError> {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut failures = 0;
        while let Some((place, accepted)) = self.next(listener, connections, &places).await {
            match accepted {
                Ok((stream, peer)) => {
                    failures = 0;
                    connections.spawn(self.clone().hold(stream, peer, place));
                }
                Err(source) if failures == ACCEPT_FAILURES => return Err(ServeError { source }),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        Ok(())
    }

    /// The next connection, with its place among all; `None` at the shutdown.
    async fn next(
        &self,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        places: &Arc<Semaphore>,
    ) -> Option<(OwnedSemaphorePermit, io::Result<(TcpStream, SocketAddr)>)> {
        let place = tokio::select! {
            () = self.shutdown.cancelled() => return None,
            place = places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => return Some((place, accepted)),
            }
        }
    }

    /// Serves one connection and gives its place back.
    async fn hold(self, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        if let Err(error) = Box::pin(self.connection(stream)).await {
            tracing::debug!(%peer, %error, "connection ended");
        }
        drop(place);
    }

    async fn connection(self, stream: TcpStream) -> Result<(), ConnectionError> {
        stream.set_nodelay(true)?;
        let Some(stream) = timeout(HANDSHAKE, self.handshake(stream)).await.map_err(|_| ConnectionError::Slow)?? else {
            return Ok(());
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        let service = TowerToHyperService::new(self.router);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => return Ok(served?),
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }

    /// `None` when the client spoke plain HTTP, which begins with the letters of a method, and was told so.
    async fn handshake(&self, mut stream: TcpStream) -> io::Result<Option<tokio_rustls::server::TlsStream<TcpStream>>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{PLAIN_HTTP}",
                PLAIN_HTTP.len()
            );
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            return Ok(None);
        }
        self.acceptor.accept(stream).await.map(Some)
    }
}

fn protected(router: axum::Router, token: Token) -> axum::Router {
    router.layer(middleware::from_fn_with_state(token, authenticate))
}

/// Health and version are open to all, as in Kubernetes.
async fn authenticate(State(token): State<Token>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let open = matches!(path.split('/').nth(1), Some("healthz" | "livez" | "readyz" | "version"));
    if open || is_known(&token, &request) {
        return next.run(request).await;
    }
    unauthorized()
}

fn is_known(token: &Token, request: &Request) -> bool {
    let offered = request.headers().get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let bearer = offered.and_then(|value| {
        let (scheme, rest) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
    });
    bearer.is_some_and(|offered| token.matches(offered))
}

fn unauthorized() -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, headers, status.to_string()).into_response()
}

impl crate::ApiServer {
    /// Serves the API on the listener over TLS, to clients that send the data folder's token, until `shutdown`.
    /// Watches end when the server itself is shut down; those that are left are cut two seconds later.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        Box::pin(serve(listener, self.router(), &self.pki, shutdown)).await
    }

    /// A kubeconfig for the server at that address. It holds the token: keep it readable by its owner only.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        self.pki.kubeconfig(address)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{
        Api, Client, Config,
        config::{KubeConfigOptions, Kubeconfig},
    };
    use tokio::{io::AsyncReadExt, task::JoinHandle};

    use super::*;
    use crate::{ApiServer, Options};

    struct Running {
        address: SocketAddr,
        kubeconfig: String,
        stop: CancellationToken,
        task: JoinHandle<Result<(), ServeError>>,
        _folder: tempfile::TempDir,
    }

    async fn running() -> Running {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer::open(Options::new(folder.path())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (kubeconfig, stop) = (server.kubeconfig(address), CancellationToken::new());
        let token = stop.clone();
        let task = tokio::spawn(async move { server.serve(listener, token).await });
        Running { address, kubeconfig, stop, task, _folder: folder }
    }

    async fn client(kubeconfig: &str) -> Client {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    #[tokio::test]
    async fn the_kubeconfig_opens_the_door_and_another_token_does_not() {
        let running = running().await;
        let api: Api<Namespace> = Api::all(client(&running.kubeconfig).await);
        assert!(api.get("default").await.is_ok());
        let (head, tail) = running.kubeconfig.split_once("token: ").unwrap();
        let (_, tail) = tail.split_once('\n').unwrap();
        let stranger = client(&format!("{head}token: {}\n{tail}", "0".repeat(64))).await;
        let refused = Api::<Namespace>::all(stranger.clone()).get("default").await.unwrap_err();
        let kube::Error::Api(status) = refused else { panic!("{refused}") };
        assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
        assert!(stranger.apiserver_version().await.is_ok(), "the version is no secret");
        running.stop.cancel();
        running.task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn plain_http_is_told_what_is_wrong() {
        let running = running().await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"GET /api HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with(PLAIN_HTTP), "{answer}");
        running.stop.cancel();
        running.task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_idle_clients() {
        let running = running().await;
        let _silent = TcpStream::connect(running.address).await.unwrap();
        let api: Api<Namespace> = Api::all(client(&running.kubeconfig).await);
        api.get("default").await.unwrap();
        running.stop.cancel();
        timeout(Duration::from_secs(20), running.task).await.expect("it ends").unwrap().unwrap();
    }
}
