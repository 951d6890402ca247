//! The node's logs as the API server asks for them.

use std::path::PathBuf;

use futures::StreamExt;
use futures::future::BoxFuture;
use modelway_apiserver::logs::{LogError, LogRequest, LogStream, PodLogs};
use modelway_node::logs;

/// Logs under a data folder.
#[derive(Debug)]
pub struct NodeLogs {
    data: PathBuf,
}

impl NodeLogs {
    /// Logs of the node whose state is in `data`.
    pub fn new(data: PathBuf) -> Self {
        Self { data }
    }
}

impl PodLogs for NodeLogs {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let request = logs::LogRequest {
            namespace: request.namespace,
            pod: request.pod,
            uid: request.uid,
            container: request.container,
            follow: request.follow,
            tail_lines: request.tail_lines,
            previous: request.previous,
            since_seconds: request.since_seconds,
            timestamps: request.timestamps,
            limit_bytes: request.limit_bytes,
        };
        Box::pin(async move {
            let stream = logs::open(&self.data, request).await.map_err(refusal)?;
            Ok(stream.boxed())
        })
    }
}

fn refusal(error: logs::LogError) -> LogError {
    match error {
        logs::LogError::NotStarted { .. } => LogError::NotStarted { reason: "ContainerCreating".to_owned() },
        logs::LogError::ContainerRequired { .. } | logs::LogError::BadName(_) => LogError::NotFound,
        logs::LogError::NoPrevious { .. } => LogError::NoPrevious,
        logs::LogError::Io { source, .. } => LogError::Read(source),
    }
}
