//! Calls to the API server: each has a timeout and an error that says what to do next.

use std::future::Future;
use std::time::Duration;

/// No call to the API server waits longer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A call that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Somebody else wrote the object first, or it exists already.
    #[error("{action} {target}: another writer was first; it is tried again")]
    Conflict { action: &'static str, target: String },
    /// The object is gone.
    #[error("{action} {target}: it does not exist")]
    NotFound { action: &'static str, target: String },
    /// The server refused the object itself.
    #[error("{action} {target}: the API server refused it: {message}")]
    Refused { action: &'static str, target: String, message: String },
    /// No answer in time.
    #[error("{action} {target}: no answer from the API server within {} s", TIMEOUT.as_secs())]
    Timeout { action: &'static str, target: String },
    /// Anything else: it is tried again.
    #[error("{action} {target}: {source}")]
    Other { action: &'static str, target: String, source: Box<kube::Error> },
}

impl CallError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

/// Runs a call under the timeout and sorts its error.
pub(crate) async fn call<T>(
    action: &'static str,
    target: &str,
    work: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(sort(action, target.to_owned(), error)),
        Err(_) => Err(CallError::Timeout { action, target: target.to_owned() }),
    }
}

fn sort(action: &'static str, target: String, error: kube::Error) -> CallError {
    let kube::Error::Api(status) = &error else {
        return CallError::Other { action, target, source: Box::new(error) };
    };
    match status.code {
        404 => CallError::NotFound { action, target },
        409 => CallError::Conflict { action, target },
        400 | 403 | 422 => CallError::Refused { action, target, message: status.message.clone() },
        _ => CallError::Other { action, target, source: Box::new(error) },
    }
}
