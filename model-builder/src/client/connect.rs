//! How a registry is reached.

use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use reqwest::redirect::Policy;

use super::{ClientError, RetryPolicy};
use crate::auth::Auth;
use crate::reference::Repository;

const CONNECT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

/// When a registry is spoken to without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    /// Only on loopback addresses.
    #[default]
    Loopback,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a client may do in its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// Everything needed to reach a repository.
pub(crate) struct Connection<'a> {
    pub(crate) auth: &'a Auth,
    pub(crate) plain_http: PlainHttp,
    pub(crate) ca_file: Option<&'a Path>,
    pub(crate) access: Access,
    /// Other repositories on this registry to read from.
    pub(crate) read_also: &'a [String],
    pub(crate) retry: &'a RetryPolicy,
}

pub(super) fn base(repository: &Repository, plain: PlainHttp) -> Result<Url, ClientError> {
    let is_plain = match plain {
        PlainHttp::Loopback => repository.is_loopback(),
        PlainHttp::Always => true,
        PlainHttp::Never => false,
    };
    let host = if repository.registry == "docker.io" { "registry-1.docker.io" } else { &repository.registry };
    let text = format!("{}://{host}/", if is_plain { "http" } else { "https" });
    Url::parse(&text).map_err(|error| ClientError::Setup(format!("bad registry address {host}: {error}")))
}

pub(super) fn scopes(repository: &Repository, connection: &Connection<'_>) -> Vec<String> {
    let actions = match connection.access {
        Access::Pull => "pull",
        Access::Push => "pull,push",
    };
    let own = format!("repository:{}:{actions}", repository.name);
    let others = connection.read_also.iter().map(|name| format!("repository:{name}:pull"));
    std::iter::once(own).chain(others).collect()
}

pub(super) fn http_client(base: &Url, loopback: bool, ca_file: Option<&Path>) -> Result<reqwest::Client, ClientError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("modelway/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(no_downgrade());
    if loopback {
        builder = builder.no_proxy();
    }
    if base.scheme() == "http" {
        // No trust anchors are needed, and a bare machine has none to load.
        builder = builder.tls_certs_only([]);
    } else if let Some(path) = ca_file {
        builder = builder.tls_certs_merge(certificates(path)?);
    }
    builder.build().map_err(|error| ClientError::Setup(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, ClientError> {
    let bad = |error: String| ClientError::Setup(format!("CA certificates in {}: {error}", path.display()));
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(error.to_string()))
}

/// Follows redirects (downloads from storage hosts), but never from https to http. The HTTP client itself drops
/// `Authorization` when host, port or scheme change.
fn no_downgrade() -> Policy {
    Policy::custom(|attempt| {
        let downgrade =
            attempt.previous().last().is_some_and(|url| url.scheme() == "https") && attempt.url().scheme() != "https";
        if downgrade {
            attempt.error("redirect from https to http refused")
        } else if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}
