//! Reading the logs of containers.

mod line;
mod read;

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::layout::{EXIT_FILE, Layout, log_name};

/// Which log to read, and how; the fields are those of the API's `log` subresource.
#[derive(Debug, Clone, Default)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: Option<String>,
    pub follow: bool,
    pub tail_lines: Option<u64>,
    pub previous: bool,
    pub since_seconds: Option<u64>,
    pub timestamps: bool,
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("container {container:?} in pod {pod:?} is waiting to start")]
    NotStarted { pod: String, container: String },
    #[error("a container name must be specified for pod {pod}, choose one of: [{}]", containers.join(" "))]
    ContainerRequired { pod: String, containers: Vec<String> },
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { pod: String, container: String },
    #[error("name {0:?} cannot name a log")]
    BadName(String),
    #[error("cannot read the log of pod {pod:?}: {source}")]
    Io { pod: String, source: io::Error },
}

/// Opens a log. With `follow` the stream goes on until the run of the container ends.
pub async fn open(data_dir: &Path, request: LogRequest) -> Result<BoxStream<'static, io::Result<Bytes>>, LogError> {
    let layout = Layout::new(data_dir);
    let found = tokio::task::spawn_blocking(move || find(&layout, &request).map(|found| (found, request)));
    let (found, request) = found.await.map_err(|error| LogError::Io { pod: String::new(), source: error.into() })??;
    Ok(Box::pin(read::stream(found, request)))
}

/// The files of one run.
#[derive(Debug, Clone)]
struct Found {
    log: PathBuf,
    /// There once the run has ended; the whole folder goes with the pod.
    exit_file: PathBuf,
}

fn find(layout: &Layout, request: &LogRequest) -> Result<Found, LogError> {
    let names = [Some(&request.namespace), Some(&request.pod), Some(&request.uid), request.container.as_ref()];
    if let Some(bad) =
        names.into_iter().flatten().find(|name| name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.'))
    {
        return Err(LogError::BadName(bad.clone()));
    }
    let pod = request.pod.clone();
    let folder = layout.pod_logs(&request.namespace, &pod, &request.uid);
    let container = match &request.container {
        Some(container) => container.clone(),
        None => only_container(&folder, &pod)?,
    };
    let runs = std::fs::read_dir(folder.join(&container)).into_iter().flatten().flatten();
    let begun = runs.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log")?.parse::<u32>().ok()).max();
    let latest = begun.ok_or_else(|| LogError::NotStarted { pod: pod.clone(), container: container.clone() })?;
    let run = match (request.previous, latest.checked_sub(1)) {
        (false, _) => latest,
        (true, Some(previous)) => previous,
        (true, None) => return Err(LogError::NoPrevious { pod, container }),
    };
    Ok(Found {
        log: folder.join(&container).join(log_name(run)),
        exit_file: layout.run(&request.uid, &container, run).join(EXIT_FILE),
    })
}

fn only_container(folder: &Path, pod: &str) -> Result<String, LogError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut containers: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    containers.sort();
    match containers.len() {
        0 => Err(LogError::NotStarted { pod: pod.to_owned(), container: String::new() }),
        1 => Ok(containers.remove(0)),
        _ => Err(LogError::ContainerRequired { pod: pod.to_owned(), containers }),
    }
}
