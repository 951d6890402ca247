//! What the tests share: registries, trees, requests.

pub mod faulty;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use modelway_oci::{PullRequest, PushReport, PushRequest, RetryPolicy, no_progress, push};
use modelway_registry::Registry;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running embedded registry.
pub struct Running {
    pub address: SocketAddr,
    pub dir: TempDir,
    _stop: DropGuard,
}

pub fn use_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub async fn registry() -> Running {
    use_tls_provider();
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move { registry.serve(listener, token).await });
    Running { address, dir, _stop: stop.drop_guard() }
}

pub fn http_client() -> reqwest::Client {
    use_tls_provider();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// Retries at once: the tests script how often things fail.
pub fn quick() -> RetryPolicy {
    RetryPolicy { attempts: 4, base: Duration::from_millis(1), cap: Duration::from_millis(5) }
}

pub fn push_request(source: &Path, address: SocketAddr, tag: &str) -> PushRequest {
    PushRequest { retry: quick(), ..PushRequest::new(source, format!("{address}/default/digits"), tag) }
}

pub async fn push_to(source: &Path, address: SocketAddr, tag: &str) -> PushReport {
    push(&push_request(source, address, tag), no_progress()).await.unwrap()
}

pub fn pull_request(reference: &str, store: &Path) -> PullRequest {
    PullRequest { retry: quick(), ..PullRequest::new(reference, store) }
}

/// A tree of the given files.
pub fn tree(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    dir
}

/// Relative paths and contents of all files, and all folders (with a final slash).
pub fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                folders.push(path);
            } else {
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Bytes that do not compress and do not repeat.
pub fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(size)
    .collect()
}
