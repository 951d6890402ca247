//! Other tools read what we push, and we push to other registries.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use modelway_oci::{no_progress, pull};

use crate::support::{contents, noise, pull_request, push_to, registry, tree};

fn skipped(program: &str) {
    assert!(std::env::var_os("MODELWAY_REQUIRE_PEERS").is_none(), "{program} is required here and not installed");
    let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
}

/// Runs a tool; `None`, and why, when it is not installed.
async fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = tokio::process::Command::new(program);
    let output = match command.args(arguments).stdin(Stdio::null()).output().await {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped(program);
            return None;
        }
        Err(error) => unreachable!("{program}: {error}"),
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    Some(text)
}

fn model() -> tempfile::TempDir {
    let long = format!("{}/{}", "d".repeat(120), "n".repeat(200));
    let dir = tree(&[
        ("weights.bin", &noise(17 << 20, 5)),
        ("empty.bin", b""),
        ("metrics.json", b"{\"accuracy\": 1}"),
        ("sub/Gr\u{f6}\u{df}e.bin", b"unicode"),
        (long.as_str(), b"long"),
        (&"x".repeat(93), b"exactly 100 bytes with models/"),
        (&"y".repeat(94), b"exactly 101 bytes with models/"),
    ]);
    std::fs::create_dir(dir.path().join("bare")).unwrap();
    dir
}

#[tokio::test]
async fn skopeo_and_umoci_read_the_same_tree() {
    let registry = registry().await;
    let source = model();
    let report = push_to(source.path(), registry.address, "v1").await;
    let dir = tempfile::tempdir().unwrap();
    let layout = dir.path().join("layout");
    let from = format!("docker://{}", report.image);
    let to = format!("oci:{}:v1", layout.display());
    if run("skopeo", &["--insecure-policy", "copy", "--src-tls-verify=false", &from, &to]).await.is_none() {
        return;
    }
    let bundle = dir.path().join("bundle");
    let image = format!("{}:v1", layout.display());
    if run("umoci", &["unpack", "--rootless", "--image", &image, bundle.to_str().unwrap()]).await.is_none() {
        return;
    }
    assert_eq!(contents(&bundle.join("rootfs/models")), contents(source.path()));
    // A copy that may not compress keeps the digest.
    let to = format!("oci:{}:v1", dir.path().join("same").display());
    run("skopeo", &["--insecure-policy", "copy", "--src-tls-verify=false", "--preserve-digests", &from, &to]).await;
    let copied = std::fs::read_to_string(dir.path().join("same/index.json")).unwrap();
    assert!(copied.contains(&report.digest), "the digest survives a copy: {copied}");
}

#[tokio::test]
async fn skopeo_pushes_images_that_we_pull() {
    let registry = registry().await;
    let source = model();
    let report = push_to(source.path(), registry.address, "v1").await;
    let from = format!("docker://{}", report.image);
    let copy = format!("docker://{}/other/copy:v2", registry.address);
    let arguments = [
        "--insecure-policy",
        "copy",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        "--dest-compress",
        &from,
        &copy,
    ];
    if run("skopeo", &arguments).await.is_none() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let name = format!("{}/other/copy:v2", registry.address);
    let image = pull(&pull_request(&name, store.path()), no_progress()).await.unwrap();
    assert_eq!(contents(&image.path.join("models")), contents(source.path()));
}

const CONFIG: &str = "version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: ROOT}}
http: {addr: 'ADDRESS'}
";

/// Stops the process when the test ends.
struct Stopped(std::process::Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Debian's registry on a free port.
async fn docker_registry(dir: &Path) -> Option<(std::net::SocketAddr, Stopped)> {
    for _ in 0..3 {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = probe.local_addr().unwrap();
        drop(probe);
        let config = dir.join("config.yml");
        let text = CONFIG.replace("ROOT", dir.join("data").to_str().unwrap()).replace("ADDRESS", &address.to_string());
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("docker-registry");
        let child = command.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            skipped("docker-registry");
            return None;
        };
        let stopped = Stopped(child);
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return Some((address, stopped));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    unreachable!("docker-registry did not start");
}

#[tokio::test]
async fn pushes_to_and_pulls_from_docker_registry() {
    crate::support::use_tls_provider();
    let dir = tempfile::tempdir().unwrap();
    let Some((address, _running)) = docker_registry(dir.path()).await else { return };
    let source = model();
    let report = push_to(source.path(), address, "v1").await;
    let again = push_to(source.path(), address, "v1").await;
    assert_eq!((again.digest, again.upload.sent_bytes), (report.digest.clone(), 0));
    // This registry keeps no list of referrers.
    let fallback = format!("sha256-{}", report.digest.strip_prefix("sha256:").unwrap());
    let tags = modelway_oci::list_tags(&pull_request(&report.image, Path::new("unused"))).await.unwrap();
    assert!(tags.contains(&fallback), "{tags:?}");
    let store = tempfile::tempdir().unwrap();
    let image = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap();
    assert_eq!(contents(&image.path.join("models")), contents(source.path()));

    let ours = registry().await;
    let same = push_to(source.path(), ours.address, "v1").await;
    assert_eq!(same.digest, report.digest);
}

const PYTHON: &str = "
import sys, tarfile
for entry in tarfile.open(sys.argv[1], 'r:'):
    assert entry.mtime == 0 and entry.uid == 0 and entry.gid == 0 and not entry.uname and not entry.pax_headers, entry
    assert entry.mode == (0o555 if entry.isdir() else 0o444), entry
tarfile.open(sys.argv[1], 'r:').extractall(sys.argv[2])
";

#[tokio::test]
async fn gnu_tar_and_python_read_the_layers() {
    let registry = registry().await;
    let source = model();
    let report = push_to(source.path(), registry.address, "v1").await;
    let summary = modelway_oci::inspect(&pull_request(&report.image, Path::new("unused"))).await.unwrap();
    // A folder a layer: without root nothing can be added to read-only folders of an earlier layer.
    let (mut gnu, mut python) = (BTreeMap::new(), BTreeMap::new());
    for layer in summary.layers {
        let blob = registry.dir.path().join("blobs/sha256").join(layer.digest.strip_prefix("sha256:").unwrap());
        let blob = blob.to_str().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (by_tar, by_python) = (dir.path().join("tar"), dir.path().join("python"));
        std::fs::create_dir(&by_tar).unwrap();
        let tar = run("tar", &["-xf", blob, "-C", by_tar.to_str().unwrap()]).await;
        let reader = run("python3", &["-c", PYTHON, blob, by_python.to_str().unwrap()]).await;
        if tar.is_none() || reader.is_none() {
            return;
        }
        run("chmod", &["-R", "u+w", dir.path().to_str().unwrap()]).await;
        gnu.extend(contents(&by_tar.join("models")));
        python.extend(contents(&by_python.join("models")));
    }
    assert_eq!(gnu, contents(source.path()));
    assert_eq!(python, contents(source.path()));
}
