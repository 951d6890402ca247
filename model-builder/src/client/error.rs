//! What can go wrong between this machine and a registry.

use std::time::Duration;

use http::Method;
use reqwest::Url;

use super::retry::Failure;
use super::shown;
use crate::auth::AuthError;
use crate::pack::PackError;

/// A request to a registry that failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client could not be set up.
    #[error("cannot prepare a connection to the registry: {0}")]
    Setup(String),
    /// Credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// No whole answer came.
    #[error("{method} {url}: {message}")]
    Transport {
        /// Method of the request.
        method: String,
        /// Its URL, without the query.
        url: String,
        /// All causes, the innermost last.
        message: String,
    },
    /// No answer came in time, or the transfer stood still.
    #[error("{method} {url}: the registry was silent for too long")]
    Silent {
        /// Method of the request.
        method: String,
        /// Its URL, without the query.
        url: String,
    },
    /// The registry refused.
    #[error("{method} {url}: the registry answered {code} {message}{}", hint(*code))]
    Status {
        /// Method of the request.
        method: String,
        /// Its URL, without the query.
        url: String,
        /// HTTP status.
        code: u16,
        /// The registry's own words, shortened.
        message: String,
        /// When the registry wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The registry does not keep to the protocol.
    #[error("the registry's answer makes no sense: {0}")]
    Protocol(String),
    /// Content is not what its digest says.
    #[error("content has digest {found}, expected {expected}")]
    WrongDigest {
        /// The digest that was asked for.
        expected: String,
        /// The digest of what came.
        found: String,
    },
    /// A blob is not there.
    #[error("blob {0} is not in the registry")]
    BlobUnknown(String),
    /// The content could not be read while it was sent.
    #[error(transparent)]
    Source(Box<PackError>),
}

fn hint(code: u16) -> &'static str {
    match code {
        401 | 403 => "; check the registry credentials and their rights on this repository",
        413 => "; the registry or a proxy before it limits the size of uploads",
        _ => "",
    }
}

impl ClientError {
    pub(super) fn transport(method: &Method, url: &Url, source: reqwest::Error) -> Self {
        let source = source.without_url();
        let mut message = source.to_string();
        let mut cause = std::error::Error::source(&source);
        while let Some(inner) = cause {
            message = format!("{message}: {inner}");
            cause = inner.source();
        }
        Self::Transport { method: method.to_string(), url: shown(url), message }
    }

    /// How to judge a failure for the retry policy; `None` when another try cannot help.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self {
            Self::Transport { .. } | Self::Silent { .. } => Some(Failure::Transport),
            Self::Status { code, retry_after, .. } => Some(Failure::Status { code: *code, retry_after: *retry_after }),
            Self::Setup(_)
            | Self::Auth(_)
            | Self::Protocol(_)
            | Self::WrongDigest { .. }
            | Self::BlobUnknown(_)
            | Self::Source(_) => None,
        }
    }
}
