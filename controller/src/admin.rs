//! The admin port: health, readiness, metrics.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use crate::{health::Health, metrics::Metrics, store::Store};

/// What the port tells about.
#[derive(Clone)]
pub struct Admin {
    pub health: Health,
    pub metrics: Metrics,
    pub store: Store,
}

impl Admin {
    /// Serves for ever.
    pub async fn serve(self, listener: TcpListener) {
        let router = axum::Router::new()
            .route("/healthz", get(healthy))
            .route("/livez", get(healthy))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self);
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!(%error, "the admin port is closed");
        }
    }
}

async fn healthy(State(admin): State<Admin>) -> (StatusCode, String) {
    answer(&admin.health.stuck())
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, String) {
    answer(&admin.health.problems())
}

async fn metrics(State(admin): State<Admin>) -> Response {
    match admin.metrics.text(admin.store.queue.due()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn answer(problems: &[String]) -> (StatusCode, String) {
    if problems.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", problems.join("\n")))
}
