//! `pods/NAME/log`: which container, which lines; the node streams them.

use std::{fmt, io, sync::Arc};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use http::header;
use k8s_openapi::jiff::Timestamp;
use parking_lot::RwLock;
use serde_json::Value;

use crate::{
    query::Parameters,
    status::{ApiError, Cause},
};

/// Which log of which container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// A container of the pod; the server fills it in when the pod has only one.
    pub container: Option<String>,
    /// Go on until the container ends.
    pub follow: bool,
    /// Lines from the end; everything when absent.
    pub tail_lines: Option<u64>,
    /// The log of the run before the last restart.
    pub previous: bool,
    pub since_seconds: Option<u64>,
    /// An RFC 3339 time before each line.
    pub timestamps: bool,
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The container has not run yet; the reason is its waiting reason, `ContainerCreating` for example.
    #[error("waiting to start: {reason}")]
    NotStarted { reason: String },
    /// There was no run before the current one.
    #[error("previous terminated container not found")]
    NoPrevious,
    /// The pod is not on this node.
    #[error("no log of this pod is here")]
    NotFound,
    #[error("cannot read the log: {0}")]
    Read(#[from] io::Error),
}

/// Lines of a log as they are written; ends at the end of the log, or of the container when following.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Whoever keeps the logs of pods: the node.
pub trait PodLogs: Send + Sync {
    /// Opens a log. Dropping the stream stops following.
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>>;
}

/// Where the server gets logs from, once somebody keeps them.
#[derive(Default)]
pub(crate) struct LogSource(RwLock<Option<Arc<dyn PodLogs>>>);

impl fmt::Debug for LogSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LogSource(..)")
    }
}

impl LogSource {
    pub(crate) fn get(&self) -> Option<Arc<dyn PodLogs>> {
        self.0.read().clone()
    }
}

impl crate::ApiServer {
    /// Names who keeps the logs of pods; the last one named is asked.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        *self.core.logs.0.write() = Some(logs);
    }
}

/// Answers a `GET` of a pod's log; `pod` is the stored object.
pub(crate) async fn answer(
    pod: &Value,
    parameters: &Parameters,
    logs: Option<Arc<dyn PodLogs>>,
) -> Result<Response, ApiError> {
    let request = request(pod, parameters, Timestamp::now())?;
    let logs = logs.ok_or_else(|| ApiError::internal("no node keeps logs yet"))?;
    let (name, container) = (request.pod.clone(), request.container.clone().unwrap_or_default());
    let stream = logs.open(request).await.map_err(|error| refusal(&error, &name, &container))?;
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(stream)).into_response())
}

fn refusal(error: &LogError, pod: &str, container: &str) -> ApiError {
    match error {
        LogError::NotStarted { reason } => {
            ApiError::bad_request(format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}"))
        }
        LogError::NoPrevious => {
            ApiError::bad_request(format!("previous terminated container \"{container}\" in pod \"{pod}\" not found"))
        }
        LogError::NotFound => ApiError::bad_request(format!("pod \"{pod}\" does not have a host assigned")),
        LogError::Read(_) => ApiError::internal(error),
    }
}

fn request(pod: &Value, parameters: &Parameters, now: Timestamp) -> Result<LogRequest, ApiError> {
    let own = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
    let is_true = |key: &str| parameters.text(key).is_some_and(is_true);
    let mut causes = Vec::new();
    let mut number = |key: &str, lowest: u64| match parameters.text(key) {
        Some(value) => at_least(key, value, lowest, &mut causes),
        None => Ok(None),
    };
    let mut request = LogRequest {
        namespace: own("namespace"),
        pod: own("name"),
        uid: own("uid"),
        container: parameters.text("container").map(str::to_owned),
        follow: is_true("follow"),
        tail_lines: number("tailLines", 0)?,
        previous: is_true("previous"),
        since_seconds: number("sinceSeconds", 1)?,
        timestamps: is_true("timestamps"),
        limit_bytes: number("limitBytes", 1)?,
    };
    if let Some(time) = parameters.text("sinceTime") {
        request.since_seconds = Some(seconds_since(time, now)?);
    }
    if !causes.is_empty() {
        return Err(invalid_options(&request.pod, &causes));
    }
    request.container = Some(container(pod, &request)?);
    Ok(request)
}

/// The container that the request means.
fn container(pod: &Value, request: &LogRequest) -> Result<String, ApiError> {
    let names = |key: &str| -> Vec<String> {
        let list = pod["spec"][key].as_array().into_iter().flatten();
        list.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
    };
    let (containers, first) = (names("containers"), names("initContainers"));
    match (&request.container, containers.as_slice()) {
        (Some(name), _) if containers.contains(name) || first.contains(name) => Ok(name.clone()),
        (Some(name), _) => Err(ApiError::bad_request(format!("container {name} is not valid for pod {}", request.pod))),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let pod = &request.pod;
            let choice = format!("choose one of: [{}]", containers.join(" "));
            let also = match first.as_slice() {
                [] => String::new(),
                first => format!(" or one of the init containers: [{}]", first.join(" ")),
            };
            Err(ApiError::bad_request(format!("a container name must be specified for pod {pod}, {choice}{also}")))
        }
    }
}

/// Kubernetes reads any value but these as true.
fn is_true(value: &str) -> bool {
    !value.eq_ignore_ascii_case("false") && value != "0"
}

/// The number, or nothing and a cause when it is too small; another error when it is no number.
fn at_least(key: &str, value: &str, lowest: u64, causes: &mut Vec<Cause>) -> Result<Option<u64>, ApiError> {
    let number: i64 = value
        .parse()
        .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing \"{value}\": invalid {key}")))?;
    match u64::try_from(number) {
        Ok(number) if number >= lowest => Ok(Some(number)),
        _ => {
            let why = format!("must be greater than or equal to {lowest}");
            causes.push(Cause::invalid(key, &number.into(), &why));
            Ok(None)
        }
    }
}

fn seconds_since(value: &str, now: Timestamp) -> Result<u64, ApiError> {
    let then: Timestamp = value.parse().map_err(|_| {
        ApiError::bad_request(format!("sinceTime: \"{value}\" is not a time such as 2030-01-31T12:00:00Z"))
    })?;
    Ok(u64::try_from(now.as_second() - then.as_second()).unwrap_or(0).max(1))
}

fn invalid_options(pod: &str, causes: &[Cause]) -> ApiError {
    let text: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let mut error =
        ApiError::bad_request(format!("PodLogOptions \"{pod}\" is invalid: {}", text.join(", "))).with_causes(causes);
    error.code = http::StatusCode::UNPROCESSABLE_ENTITY;
    error.reason = "Invalid";
    error
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt, stream};
    use serde_json::json;

    use super::*;

    struct Fake;

    impl PodLogs for Fake {
        fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
            async move {
                if request.previous {
                    return Err(LogError::NoPrevious);
                }
                let text = format!("{} {:?}\n", request.container.unwrap_or_default(), request.tail_lines);
                Ok(stream::iter([Ok(Bytes::from(text))]).boxed())
            }
            .boxed()
        }
    }

    fn pod(containers: &[&str]) -> Value {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"},
               "spec": {"containers": containers, "initContainers": [{"name": "i"}]}})
    }

    fn parameters(query: &str) -> Parameters {
        Parameters::of(&format!("/log?{query}").parse().unwrap()).unwrap()
    }

    async fn ask(pod: &Value, query: &str) -> Result<String, (u16, String)> {
        let response = answer(pod, &parameters(query), Some(Arc::new(Fake)))
            .await
            .map_err(|error| (error.code.as_u16(), error.message))?;
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_only_container_needs_no_name() {
        assert_eq!(ask(&pod(&["c"]), "tailLines=5").await, Ok("c Some(5)\n".into()));
        assert_eq!(ask(&pod(&["c"]), "container=i").await, Ok("i None\n".into()));
    }

    #[tokio::test]
    async fn errors_read_as_in_kubernetes() {
        let cases = [
            (
                "",
                400,
                "a container name must be specified for pod p, choose one of: [c d] or one of the init containers: [i]",
            ),
            ("container=x", 400, "container x is not valid for pod p"),
            ("container=c&previous=true", 400, "previous terminated container \"c\" in pod \"p\" not found"),
            (
                "container=c&tailLines=-1",
                422,
                "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
        ];
        for (query, code, message) in cases {
            assert_eq!(ask(&pod(&["c", "d"]), query).await, Err((code, message.to_owned())));
        }
        assert!(ask(&pod(&["c"]), "tailLines=x").await.is_err());
        assert!(ask(&pod(&["c"]), "sinceTime=x").await.is_err());
    }

    #[test]
    fn since_a_time_becomes_seconds() {
        let now = "2030-01-01T00:01:00Z".parse().unwrap();
        let found = request(&pod(&["c"]), &parameters("sinceTime=2030-01-01T00%3A00%3A00Z"), now).unwrap();
        assert_eq!(found.since_seconds, Some(60));
    }
}
