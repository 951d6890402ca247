//! HTTP side: routes, statuses, graceful stop.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, InferError};
use crate::protocol::{self, InferRequest, RequestError};

/// Largest request body.
const MAX_BODY: usize = 64 << 20;
/// Slow clients may take this long to send a request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests under way at a stop have this long to finish.
const DRAIN: Duration = Duration::from_secs(20);
/// After a stop is asked for, routers may not know of it yet: connections are taken for this long.
pub const LINGER: Duration = Duration::from_secs(5);

/// All routes of one model.
pub fn router(engine: Engine) -> Router {
    Router::new()
        .route("/v2", get(server_metadata))
        .route("/v2/health/live", get(|| async { StatusCode::OK }))
        .route("/v2/health/ready", get(|| async { StatusCode::OK }))
        .route("/v2/models/{name}", get(model_metadata))
        .route("/v2/models/{name}/ready", get(model_ready))
        .route("/v2/models/{name}/infer", post(infer))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(engine)
}

/// Serves until `shutdown` and for `linger` longer, then answers what is under way.
pub async fn serve(
    listener: tokio::net::TcpListener,
    engine: Engine,
    shutdown: CancellationToken,
    linger: Duration,
) -> std::io::Result<()> {
    let stop = async {
        shutdown.cancelled().await;
        tokio::time::sleep(linger).await;
    };
    let mut stop = std::pin::pin!(stop);
    let service = TowerToHyperService::new(router(engine));
    let graceful = GracefulShutdown::new();
    let mut http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, mostly: let some connections end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // A small answer must not wait for the client's acknowledgement.
        let _unsupported = stream.set_nodelay(true);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()).into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = DRAIN.as_secs(), "requests were still under way when the server stopped");
    }
    Ok(())
}

async fn server_metadata() -> Json<serde_json::Value> {
    Json(json!({"name": "modelway-runtime-onnx", "version": env!("CARGO_PKG_VERSION"), "extensions": []}))
}

async fn model_metadata(State(engine): State<Engine>, Path(name): Path<String>) -> Response {
    let model = engine.model();
    if name != model.name {
        return unknown_model(&name, &model.name);
    }
    let (inputs, outputs) = (&model.inputs, &model.outputs);
    Json(json!({"name": name, "platform": "onnx_tract", "inputs": inputs, "outputs": outputs})).into_response()
}

async fn model_ready(State(engine): State<Engine>, Path(name): Path<String>) -> Response {
    let served = &engine.model().name;
    if name == *served { StatusCode::OK.into_response() } else { unknown_model(&name, served) }
}

async fn infer(State(engine): State<Engine>, Path(name): Path<String>, body: Bytes) -> Response {
    let model = engine.model();
    if name != model.name {
        return unknown_model(&name, &model.name);
    }
    let request: InferRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            return failed(StatusCode::BAD_REQUEST, &format!("the body is not an inference request: {error}"));
        }
    };
    let inputs = match protocol::inputs(model, &request) {
        Ok(inputs) => inputs,
        Err(error) => return failed(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let answer = engine.infer(inputs).await.map(|outputs| protocol::response(model, &request, &outputs));
    match answer {
        Ok(Ok(response)) => Json(response).into_response(),
        Ok(Err(error @ RequestError::UnknownOutput { .. })) => failed(StatusCode::BAD_REQUEST, &error.to_string()),
        Ok(Err(error)) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => infer_failed(&error),
    }
}

fn infer_failed(error: &InferError) -> Response {
    let status = match error {
        InferError::Busy { .. } | InferError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        InferError::Rows(_) => StatusCode::BAD_REQUEST,
        InferError::Model(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = failed(status, &error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

fn unknown_model(asked: &str, served: &str) -> Response {
    failed(StatusCode::NOT_FOUND, &format!("no model {asked:?} here; this server has {served:?}"))
}

fn failed(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({"error": error}))).into_response()
}
