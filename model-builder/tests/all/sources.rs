//! Sources that cannot be published, and that equal files give equal digests.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use modelway_oci::{PicklePolicy, PushError, PushRequest, no_progress, push};
use proptest::prelude::*;

use crate::support::{push_request, push_to, registry, tree, use_tls_provider};

/// Pushing needs no registry when the source is refused.
async fn refused(source: &Path) -> (&'static str, String) {
    use_tls_provider();
    let request = PushRequest::new(source, "127.0.0.1:1/default/digits", "v1");
    let error = push(&request, no_progress()).await.unwrap_err();
    (error.reason(), error.to_string())
}

#[tokio::test]
async fn an_empty_output_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("folder")).unwrap();
    assert_eq!(refused(dir.path()).await.0, "SourceEmpty");
    assert_eq!(refused(&dir.path().join("nothing")).await.0, "SourceUnreadable");
}

#[tokio::test]
async fn special_files_are_refused_with_their_path() {
    let dir = tree(&[("sub/model.bin", b"x")]);
    symlink("/etc/passwd", dir.path().join("sub/link")).unwrap();
    let (reason, text) = refused(dir.path()).await;
    assert_eq!(reason, "SourceInvalid");
    assert!(text.contains("sub/link") && text.contains("/etc/passwd"), "{text}");

    let dir = tree(&[("model.bin", b"x")]);
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    assert!(refused(dir.path()).await.1.contains("socket is a socket"));

    let dir = tree(&[("model.bin", b"x")]);
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(refused(dir.path()).await.1.contains("pipe is a named pipe"));
    }
}

#[tokio::test]
async fn names_that_images_cannot_hold_are_refused() {
    for name in [".wh.model", "line\nbreak", "back\\slash"] {
        let dir = tree(&[(name, b"x")]);
        assert_eq!(refused(dir.path()).await.0, "SourceInvalid", "{name:?}");
    }
    let dir = tree(&[("Model.bin", b"x"), ("model.bin", b"y")]);
    assert!(refused(dir.path()).await.1.contains("upper and lower case"));
    let dir = tempfile::tempdir().unwrap();
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"bad-\xff.bin");
    fs::write(dir.path().join(name), "x").unwrap();
    assert!(refused(dir.path()).await.1.contains("not UTF-8"));
}

#[tokio::test]
async fn secrets_are_refused_and_never_shown() {
    let token = format!("hf_{}", "a1B2".repeat(9));
    let dir = tree(&[("config.yaml", format!("token: {token}").as_bytes())]);
    let (reason, text) = refused(dir.path()).await;
    assert_eq!(reason, "SecretInSource");
    assert!(text.contains("config.yaml") && !text.contains(&token), "{text}");
    assert_eq!(refused(tree(&[("deep/.env", b"x")]).path()).await.0, "SecretInSource");
}

#[tokio::test]
async fn damaged_models_are_refused() {
    let dir = tree(&[("model.onnx", b"not a model")]);
    assert_eq!(refused(dir.path()).await.0, "ModelDamaged");
}

#[tokio::test]
async fn pickles_are_labelled_or_denied() {
    let registry = registry().await;
    let dir = tree(&[("model.pkl", b"\x80\x04\x95\x10\0\0\0")]);
    let mut request = push_request(dir.path(), registry.address, "v1");
    let report = push(&request, no_progress()).await.unwrap();
    assert_eq!(report.pickle_files, ["model.pkl"]);
    assert_eq!(report.format.as_deref(), Some("pickle"));
    request.pickle = PicklePolicy::Deny;
    let error = push(&request, no_progress()).await.unwrap_err();
    assert!(matches!(error, PushError::Source(_)) && error.reason() == "PickleDenied");
}

#[tokio::test]
async fn bad_references_are_refused_before_anything_is_read() {
    let dir = tree(&[("a.bin", b"x")]);
    let bad = PushRequest::new(dir.path(), "127.0.0.1:1/Default", "v1");
    assert_eq!(push(&bad, no_progress()).await.unwrap_err().reason(), "InvalidReference");
    let bad = PushRequest::new(dir.path(), "127.0.0.1:1/default", "not a tag");
    assert_eq!(push(&bad, no_progress()).await.unwrap_err().reason(), "InvalidReference");
}

/// A file of a random tree.
#[derive(Debug, Clone)]
struct File {
    path: String,
    content: Vec<u8>,
}

fn files() -> impl Strategy<Value = Vec<File>> {
    let name = prop::sample::select(vec!["a", "b", "c.bin", "d.json", "e.md", "f.py", "ä-ü", "LICENSE"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|steps| steps.join("/"));
    let content = prop::collection::vec(any::<u8>(), 1..1500);
    prop::collection::btree_map(path, content, 1..12).prop_map(|map| {
        let mut kept: Vec<File> = Vec::new();
        for (path, content) in map {
            // A name cannot be a file and a folder.
            let clash =
                |one: &File| path.starts_with(&format!("{}/", one.path)) || one.path.starts_with(&format!("{path}/"));
            if !kept.iter().any(clash) {
                kept.push(File { path, content });
            }
        }
        kept
    })
}

fn write(files: &[File]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (index, file) in files.iter().enumerate() {
        let path = dir.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.content).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(index as u64 * 1_000_003);
        fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    dir
}

async fn layers(source: &Path, address: std::net::SocketAddr, tag: &str) -> (String, Vec<String>) {
    let report = push_to(source, address, tag).await;
    let request = crate::support::pull_request(&report.image, Path::new("unused"));
    let summary = modelway_oci::inspect(&request).await.unwrap();
    (report.digest, summary.layers.into_iter().map(|layer| layer.digest).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn digests_depend_on_paths_and_bytes_alone(mut files in files(), chosen in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let registry = registry().await;
            let first = layers(write(&files).path(), registry.address, "one").await;
            files.reverse();
            let second = layers(write(&files).path(), registry.address, "two").await;
            assert_eq!(first, second, "the order of creation and the times changed the digest");
            let file = chosen.index(files.len());
            let byte = at.index(files[file].content.len());
            files[file].content[byte] ^= 1;
            let third = layers(write(&files).path(), registry.address, "three").await;
            let changed = first.1.iter().zip(&third.1).filter(|(one, other)| one != other).count();
            assert_eq!((changed, first.1.len()), (1, third.1.len()));
        });
    }
}
