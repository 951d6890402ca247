//! Credentials of registries: docker's `config.json` and Kubernetes' `.dockerconfigjson`. Never logged, never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::reference::Repository;

/// A credentials file is small.
const MAX_FILE: u64 = 1 << 20;

/// Where credentials come from.
#[derive(Clone, Default)]
pub enum Auth {
    /// None.
    #[default]
    Anonymous,
    /// A user name and a password.
    Basic {
        /// User name.
        username: String,
        /// Password or access token.
        password: String,
    },
    /// A docker `config.json` or Kubernetes `.dockerconfigjson`; a file that is not there means none.
    File(PathBuf),
}

impl fmt::Debug for Auth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => formatter.write_str("Anonymous"),
            Self::Basic { .. } => formatter.write_str("Basic(hidden)"),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Credentials that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file cannot be read.
    #[error("cannot read registry credentials in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file's content is not a docker config. (The content is not repeated here: it is secret.)
    #[error("registry credentials in {} are not a docker config.json", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
}

/// What is presented to a registry or its token server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    Basic {
        username: String,
        password: String,
    },
    /// A refresh token for the token server.
    Identity(String),
    /// A ready bearer token.
    Bearer(String),
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

impl Auth {
    pub(crate) fn credential(&self, repository: &Repository) -> Result<Option<Credential>, AuthError> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Basic { username, password } => {
                Ok(Some(Credential::Basic { username: username.clone(), password: password.clone() }))
            }
            Self::File(path) => from_file(path, repository),
        }
    }
}

fn from_file(path: &Path, repository: &Repository) -> Result<Option<Credential>, AuthError> {
    let read = || -> std::io::Result<Vec<u8>> {
        if std::fs::metadata(path)?.len() > MAX_FILE {
            return Err(std::io::Error::other("the file is too large"));
        }
        std::fs::read(path)
    };
    let bytes = match read() {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            tracing::debug!(path = %path.display(), "no registry credentials file: going on without");
            return Ok(None);
        }
        Err(source) => return Err(AuthError::Read { path: path.to_owned(), source }),
    };
    let format = || AuthError::Format { path: path.to_owned() };
    let config: DockerConfig = serde_json::from_slice(&bytes).map_err(|_| format())?;
    let best = config
        .auths
        .iter()
        .filter_map(|(key, entry)| Some((matching(key, repository)?, entry)))
        .max_by_key(|(length, _)| *length);
    best.map_or(Ok(None), |(_, entry)| entry.credential().map_err(|()| format()))
}

/// How well a key of `auths` names the repository: the length of the matching path, `None` for another registry.
fn matching(key: &str, repository: &Repository) -> Option<usize> {
    let key = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = if matches!(path, "v1" | "v2") { "" } else { path };
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    if host != repository.registry {
        return None;
    }
    let rest = repository.name.strip_prefix(path)?;
    (path.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some(path.len())
}

impl Entry {
    fn credential(&self) -> Result<Option<Credential>, ()> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Credential::Bearer(self.registrytoken.clone())));
        }
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credential::Identity(self.identitytoken.clone())));
        }
        if self.auth.is_empty() {
            let basic = Credential::Basic { username: self.username.clone(), password: self.password.clone() };
            return Ok((!self.username.is_empty()).then_some(basic));
        }
        let decoded = STANDARD.decode(self.auth.trim()).map_err(|_| ())?;
        let text = String::from_utf8(decoded).map_err(|_| ())?;
        let (username, password) = text.split_once(':').ok_or(())?;
        let password = password.trim_end_matches('\0');
        Ok(Some(Credential::Basic { username: username.to_owned(), password: password.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(json: &str, repository: &str) -> Result<Option<String>, AuthError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        let credential = Auth::File(file.path().to_owned()).credential(&repository.parse().unwrap())?;
        Ok(credential.map(|credential| match credential {
            Credential::Basic { username, password } => format!("{username}:{password}"),
            Credential::Identity(token) => format!("identity {token}"),
            Credential::Bearer(token) => format!("bearer {token}"),
        }))
    }

    #[test]
    fn takes_the_most_specific_key() {
        let json = r#"{"auths": {
            "https://r.example.com/v2/": {"auth": "YTpi"},
            "r.example.com/team": {"username": "u", "password": "p"},
            "r.example.com/te": {"username": "wrong", "password": "wrong"},
            "index.docker.io/v1": {"identitytoken": "t"}}}"#;
        assert_eq!(lookup(json, "r.example.com/other/m").unwrap().as_deref(), Some("a:b"));
        assert_eq!(lookup(json, "r.example.com/team/m").unwrap().as_deref(), Some("u:p"));
        assert_eq!(lookup(json, "docker.io/library/m").unwrap().as_deref(), Some("identity t"));
        assert_eq!(lookup(json, "evil.example.com/team/m").unwrap(), None);
    }

    #[test]
    fn says_nothing_of_the_content_when_it_is_bad() {
        let error = lookup("SECRET", "r.example.com/m").unwrap_err().to_string();
        assert!(!error.contains("SECRET"), "{error}");
        assert!(lookup(r#"{"auths": {"r.example.com": {"auth": "%%"}}}"#, "r.example.com/m").is_err());
    }

    #[test]
    fn a_missing_file_means_anonymous() {
        let auth = Auth::File(PathBuf::from("/nonexistent/config.json"));
        assert!(auth.credential(&"r.example.com/m".parse().unwrap()).unwrap().is_none());
        let shown = format!("{:?}", Auth::Basic { username: "u".to_owned(), password: "hunter2".to_owned() });
        assert!(!shown.contains("hunter2"));
    }
}
