//! The admin port: health, metrics, configuration, waiting requests, stats.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::ConfigReport;
use crate::held::{self, HeldReport};
use crate::server::Shared;
use crate::stats;

/// Serves until the token is cancelled.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, token: CancellationToken) -> io::Result<()> {
    let router = axum::Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/config", get(config))
        .route("/debug/held", get(debug_held))
        .route("/stats/stream", get(stats_stream))
        .with_state(shared);
    tokio::select! {
        result = axum::serve(listener, router) => result,
        () = token.cancelled() => Ok(()),
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.draining.load(Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if shared.routes.is_ready() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no route table with endpoints yet")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match shared.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn config(State(shared): State<Arc<Shared>>) -> Json<ConfigReport> {
    Json(shared.routes.report(shared.draining.load(Relaxed)))
}

async fn debug_held(State(shared): State<Arc<Shared>>) -> Json<HeldReport> {
    Json(held::report(&shared))
}

async fn stats_stream(State(shared): State<Arc<Shared>>) -> Response {
    let events = stats::events(shared).map(Ok::<_, Infallible>);
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(events)).into_response()
}
