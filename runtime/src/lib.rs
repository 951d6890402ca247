//! Built-in model server: Open Inference Protocol V2 (REST) over tract (ONNX), with dynamic batching.
//!
//! Requests become tensors (`tensor`), wait in a bounded queue (`queue`), are grouped by compatible shape (`batch`) and
//! run on a fixed number of threads (`engine`), each run on a plan made for its batch size (`model`).

pub mod batch;
mod engine;
mod model;
mod protocol;
mod queue;
mod server;
pub mod tensor;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use engine::Engine;
pub use model::{LoadError, Model};
pub use server::{router, serve};
use tokio_util::sync::CancellationToken;

/// What to serve and how.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// An `.onnx` file, or a folder that holds `model.onnx` or exactly one `.onnx` file.
    pub model: PathBuf,
    /// Model name in URLs.
    pub name: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Threads that run the model.
    pub threads: NonZeroUsize,
    /// Most rows that one run takes.
    pub max_batch_size: NonZeroUsize,
    /// How long the first request of a batch waits for company.
    pub max_batch_delay: Duration,
    /// Requests that may wait; more are answered 503.
    pub max_queue: NonZeroUsize,
}

/// Why the server stopped.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the model threads did not start: {0}")]
    Threads(std::io::Error),
    #[error("the server on {address} ended: {source}")]
    Serve { address: SocketAddr, source: std::io::Error },
}

/// Loads the model, warms it up, then serves until `shutdown` and 5 s longer, until routers know; requests under way are
/// finished.
///
/// The port opens after the model is loaded: an open port is a ready server.
pub async fn run(options: RuntimeOptions, shutdown: CancellationToken) -> Result<(), RuntimeError> {
    let model = Model::load(&options.model, &options.name)?;
    model.warm_up()?;
    let engine = Engine::start(model, &options).map_err(RuntimeError::Threads)?;
    let address = options.listen;
    let listener =
        tokio::net::TcpListener::bind(address).await.map_err(|source| RuntimeError::Listen { address, source })?;
    tracing::info!(%address, model = options.name, threads = options.threads, "serving");
    let served = server::serve(listener, engine, shutdown, server::LINGER).await;
    served.map_err(|source| RuntimeError::Serve { address, source })
}
