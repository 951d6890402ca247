//! The registry over HTTP, over restarts, and after a kill.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use modelway_registry::{Options, Registry};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Running {
    http: Client,
    base: String,
    dir: Arc<TempDir>,
    _stop: DropGuard,
}

async fn start(dir: Arc<TempDir>, options: Options) -> Running {
    let registry = Registry::open_with(dir.path(), options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v2", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move { registry.serve(listener, token).await });
    Running { http: client(), base, dir, _stop: stop.drop_guard() }
}

fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

async fn fresh() -> Running {
    start(Arc::new(tempfile::tempdir().unwrap()), Options::default()).await
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Running {
    async fn push_blob(&self, repository: &str, bytes: &[u8]) -> Response {
        let url = format!("{}/{repository}/blobs/uploads/?digest={}", self.base, sha256(bytes));
        self.http.post(url).body(bytes.to_vec()).send().await.unwrap()
    }

    async fn push_manifest(&self, repository: &str, reference: &str, manifest: &Value) -> Response {
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let url = format!("{}/{repository}/manifests/{reference}", self.base);
        self.http.put(url).header("content-type", kind).body(manifest.to_string()).send().await.unwrap()
    }

    async fn status(&self, path: &str) -> StatusCode {
        self.http.get(format!("{}/{path}", self.base)).send().await.unwrap().status()
    }

    async fn start_upload(&self) -> String {
        let response = self.http.post(format!("{}/a/blobs/uploads/", self.base)).send().await.unwrap();
        let location = response.headers()["location"].to_str().unwrap().to_owned();
        format!("{}{}", self.base.strip_suffix("/v2").unwrap(), location)
    }

    fn files_in(&self, folder: &str) -> usize {
        std::fs::read_dir(self.dir.path().join(folder)).unwrap().count()
    }
}

fn manifest(config: &[u8]) -> Value {
    let kind = "application/vnd.oci.image.config.v1+json";
    json!({
        "schemaVersion": 2,
        "config": {"mediaType": kind, "digest": sha256(config), "size": config.len()},
        "layers": [],
    })
}

async fn code(response: Response) -> String {
    let body: Value = response.json().await.unwrap();
    body["errors"][0]["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn refuses_a_manifest_whose_content_is_missing() {
    let registry = fresh().await;
    let response = registry.push_manifest("a", "v1", &manifest(b"{}")).await;
    assert_eq!(response.status(), 404);
    assert_eq!(code(response).await, "MANIFEST_BLOB_UNKNOWN");
    assert_eq!(registry.push_blob("a", b"{}").await.status(), 201);
    assert_eq!(registry.push_manifest("a", "v1", &manifest(b"{}")).await.status(), 201);
}

#[tokio::test]
async fn limits_are_kept() {
    let options = Options { max_blob_bytes: 10, max_manifest_bytes: 100, max_sessions: 2, ..Options::default() };
    let registry = start(Arc::new(tempfile::tempdir().unwrap()), options).await;
    assert_eq!(registry.push_blob("a", b"01234567890").await.status(), 413);
    assert_eq!(registry.push_manifest("a", "v1", &json!({"a": "x".repeat(200)})).await.status(), 413);
    assert_eq!(registry.files_in("uploads"), 0, "a refused upload leaves nothing");
    registry.start_upload().await;
    registry.start_upload().await;
    let third = registry.http.post(format!("{}/a/blobs/uploads/", registry.base)).send().await.unwrap();
    assert_eq!(third.status(), 429);
}

#[tokio::test]
async fn hostile_paths_reach_nothing() {
    let registry = fresh().await;
    for path in [
        "../../etc/passwd/manifests/v1",
        "a/manifests/..%2f..%2fx",
        "a/blobs/sha256:..",
        "a/blobs/uploads/..",
        "A/tags/list",
        "a/manifests/sha256:zz",
    ] {
        let status = registry.status(path).await;
        assert!(status == 400 || status == 404, "{path}: {status}");
    }
}

#[tokio::test]
async fn an_upload_goes_on_after_a_restart() {
    let registry = fresh().await;
    let session = registry.start_upload().await;
    let patched = registry.http.patch(&session).body("first ").send().await.unwrap();
    assert_eq!(patched.headers()["range"], "0-5");
    let id = session.rsplit('/').next().unwrap().to_owned();
    let again = start(Arc::clone(&registry.dir), Options::default()).await;
    let session = format!("{}/a/blobs/uploads/{id}", again.base);
    let status = again.http.get(&session).send().await.unwrap();
    assert_eq!((status.status().as_u16(), &status.headers()["range"]), (204, &"0-5".parse().unwrap()));
    let put = again.http.put(format!("{session}?digest={}", sha256(b"first second"))).body("second").send();
    assert_eq!(put.await.unwrap().status(), 201);
    let blob = again.http.get(format!("{}/a/blobs/{}", again.base, sha256(b"first second"))).send().await.unwrap();
    assert_eq!(blob.bytes().await.unwrap(), "first second");
}

#[tokio::test]
async fn a_session_belongs_to_its_repository() {
    let registry = fresh().await;
    let session = registry.start_upload().await;
    let other = session.replace("/v2/a/", "/v2/b/");
    assert_eq!(registry.http.patch(other).body("x").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn space_is_freed_with_the_last_repository() {
    let registry = fresh().await;
    let digest = sha256(b"blob");
    for repository in ["a", "b/c"] {
        assert_eq!(registry.push_blob(repository, b"blob").await.status(), 201);
    }
    assert_eq!(registry.files_in("blobs/sha256"), 1);
    for (repository, left) in [("a", 1), ("b/c", 0)] {
        let deleted = registry.http.delete(format!("{}/{repository}/blobs/{digest}", registry.base)).send().await;
        assert_eq!(deleted.unwrap().status(), 202);
        assert_eq!(registry.status(&format!("{repository}/blobs/{digest}")).await, 404);
        assert_eq!(registry.files_in("blobs/sha256"), left);
    }
}

#[tokio::test]
async fn a_start_sweeps_what_a_crash_left() {
    let registry = fresh().await;
    registry.push_blob("a", b"kept").await;
    let orphan = registry.dir.path().join("blobs/sha256").join("0".repeat(64));
    std::fs::write(&orphan, "content without a repository").unwrap();
    let upload = registry.dir.path().join("uploads").join("f".repeat(32));
    std::fs::write(&upload, "upload without a repository").unwrap();
    let tag = registry.dir.path().join("repositories/a/_tags");
    std::fs::create_dir_all(&tag).unwrap();
    std::fs::write(tag.join("~half"), "sha").unwrap();
    let again = start(Arc::clone(&registry.dir), Options::default()).await;
    assert!(!orphan.exists() && !upload.exists());
    assert_eq!(again.status(&format!("a/blobs/{}", sha256(b"kept"))).await, 200);
    let tags = again.http.get(format!("{}/a/tags/list", again.base)).send().await.unwrap();
    assert_eq!(tags.json::<Value>().await.unwrap(), json!({"name": "a", "tags": []}));
}

#[tokio::test]
async fn lists_repositories_and_pages() {
    let registry = fresh().await;
    for repository in ["a", "a/b", "c"] {
        registry.push_blob(repository, b"{}").await;
    }
    let first = registry.http.get(format!("{}/_catalog?n=2", registry.base)).send().await.unwrap();
    assert_eq!(first.headers()["link"], "</v2/_catalog?n=2&last=a/b>; rel=\"next\"");
    assert_eq!(first.json::<Value>().await.unwrap(), json!({"repositories": ["a", "a/b"]}));
    let second = registry.http.get(format!("{}/_catalog?n=2&last=a/b", registry.base)).send().await.unwrap();
    assert_eq!(second.json::<Value>().await.unwrap(), json!({"repositories": ["c"]}));
}

/// Not a test by itself: the process that [`acknowledged_content_survives_kill_9`] kills. It serves the folder named in
/// its environment and prints its address.
#[tokio::test]
async fn server_to_be_killed() {
    let Some(dir) = std::env::var_os("REGISTRY_TEST_DIR") else { return };
    let registry = Registry::open(Path::new(&dir)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut output = std::io::stdout();
    writeln!(output, "\naddress {}", listener.local_addr().unwrap()).unwrap();
    output.flush().unwrap();
    registry.serve(listener, CancellationToken::new()).await.unwrap();
}

fn spawn_server(dir: &Path) -> (std::process::Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_to_be_killed", "--nocapture", "--test-threads=1"])
        .env("REGISTRY_TEST_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("address ")?.parse().ok());
    (child, address.unwrap())
}

/// Pushes versions one after another until the server dies; gives the acknowledged ones.
async fn push_until_dead(http: Client, base: String, repository: String) -> Vec<(String, Vec<u8>)> {
    let mut acknowledged = Vec::new();
    for version in 0.. {
        let config = format!("{{\"repository\":\"{repository}\",\"version\":{version}}}").into_bytes();
        let blob = format!("{base}/{repository}/blobs/uploads/?digest={}", sha256(&config));
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let tag = format!("{base}/{repository}/manifests/v{version}");
        let pushed = http.post(blob).body(config.clone()).send().await;
        if !pushed.is_ok_and(|response| response.status() == 201) {
            break;
        }
        let tagged = http.put(tag).header("content-type", kind).body(manifest(&config).to_string()).send().await;
        if !tagged.is_ok_and(|response| response.status() == 201) {
            break;
        }
        acknowledged.push((format!("{repository}/manifests/v{version}"), config));
    }
    acknowledged
}

#[tokio::test]
async fn acknowledged_content_survives_kill_9() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    for round in 0..3_u64 {
        let (mut child, address) = spawn_server(dir.path());
        let base = format!("http://{address}/v2");
        let push = |worker: u64| tokio::spawn(push_until_dead(client(), base.clone(), format!("r{round}/w{worker}")));
        let workers: Vec<_> = (0..3).map(push).collect();
        tokio::time::sleep(std::time::Duration::from_millis(200 + 150 * round)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let registry = start(Arc::clone(&dir), Options::default()).await;
        for worker in workers {
            for (path, config) in worker.await.unwrap() {
                let found = registry.http.get(format!("{}/{path}", registry.base)).send().await.unwrap();
                assert_eq!(found.json::<Value>().await.unwrap(), manifest(&config), "{path}");
                let repository = path.split("/manifests/").next().unwrap();
                let blob = format!("{}/{repository}/blobs/{}", registry.base, sha256(&config));
                let found = registry.http.get(blob).send().await.unwrap();
                assert_eq!(found.bytes().await.unwrap(), config, "{path}");
            }
        }
    }
}
