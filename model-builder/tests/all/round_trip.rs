//! Push, push again, pull.

use std::path::Path;
use std::sync::Arc;

use modelway_oci::{
    Progress, PullError, PushError, clean_store, inspect, list_tags, no_progress, pull, pull_into, push, verify,
};
use parking_lot::Mutex;

use crate::support::{contents, noise, pull_request, push_request, push_to, registry, tree};

const METRICS: &[u8] = br#"{"accuracy": 0.5, "note": "text"}"#;

fn model() -> tempfile::TempDir {
    let dir = tree(&[
        ("metrics.json", METRICS),
        ("weights/large.bin", &noise(17 << 20, 7)),
        ("weights/small.bin", &noise(100_000, 8)),
        ("README.md", b"# model"),
        ("code/run.py", b"print(1)"),
    ]);
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    dir
}

#[tokio::test]
async fn the_pulled_tree_is_the_pushed_tree() {
    let registry = registry().await;
    let source = model();
    let report = push_to(source.path(), registry.address, "v1").await;
    assert_eq!((report.files, report.tag.as_str()), (5, "v1"));
    assert_eq!(report.metrics.get("accuracy").and_then(serde_json::Value::as_f64), Some(0.5));
    assert_eq!(report.image, format!("{}/default/digits@{}", registry.address, report.digest));
    assert!(report.upload.sent_bytes > report.size_bytes);

    let store = tempfile::tempdir().unwrap();
    let pulled = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap();
    assert_eq!(pulled.digest, report.digest);
    assert_eq!(pulled.size_bytes, report.size_bytes);
    assert_eq!(contents(&pulled.path.join("models")), contents(source.path()));
    let hex = report.digest.strip_prefix("sha256:").unwrap();
    assert_eq!(pulled.path, store.path().join(hex).join("rootfs"));
    let by_tag = format!("{}/default/digits:v1", registry.address);
    assert_eq!(pull(&pull_request(&by_tag, store.path()), no_progress()).await.unwrap(), pulled);
}

#[tokio::test]
async fn a_pulled_image_needs_no_registry() {
    let registry = registry().await;
    let report = push_to(model().path(), registry.address, "v1").await;
    let store = tempfile::tempdir().unwrap();
    let request = pull_request(&report.image, store.path());
    let first = pull(&request, no_progress()).await.unwrap();
    drop(registry);
    assert_eq!(pull(&request, no_progress()).await.unwrap(), first);
}

#[tokio::test]
async fn the_files_come_into_a_folder_of_their_own_once() {
    let registry = registry().await;
    let source = model();
    let report = push_to(source.path(), registry.address, "v1").await;
    let volume = tempfile::tempdir().unwrap();
    let target = volume.path().join("models");
    let request = pull_request(&report.image, &volume.path().join(".store"));
    let first = pull_into(&request, &target, no_progress()).await.unwrap();
    assert_eq!((contents(&first.path), &first.digest), (contents(source.path()), &report.digest));
    assert_eq!(pull_into(&request, &target, no_progress()).await.unwrap(), first, "as after a restart");
    let other = tree(&[("other.bin", b"other")]);
    let other = push_to(other.path(), registry.address, "v2").await;
    let request = pull_request(&other.image, &volume.path().join(".store"));
    let error = pull_into(&request, &target, no_progress()).await.unwrap_err().to_string();
    assert!(error.contains("holds something else"), "{error}");
}

#[tokio::test]
async fn pushing_again_sends_nothing_and_keeps_the_digest() {
    let registry = registry().await;
    let source = model();
    let first = push_to(source.path(), registry.address, "v1").await;
    let second = push_to(source.path(), registry.address, "v1").await;
    assert_eq!(second.digest, first.digest);
    assert_eq!(second.upload.sent_bytes, 0);
    assert!(second.upload.skipped_bytes > second.size_bytes);
}

#[tokio::test]
async fn layers_are_mounted_from_a_repository_that_has_them() {
    let registry = registry().await;
    let source = tree(&[("a.bin", &noise(1 << 20, 3))]);
    let first = push_to(source.path(), registry.address, "v1").await;
    let mut request = push_request(source.path(), registry.address, "v1");
    request.repository = format!("{}/other/digits", registry.address);
    request.mount_from = vec!["not/there".to_owned(), "default/digits".to_owned()];
    let second = push(&request, no_progress()).await.unwrap();
    assert_eq!(second.digest, first.digest);
    assert_eq!(second.upload.mounted_bytes, first.size_bytes);
}

#[tokio::test]
async fn a_taken_tag_is_moved_only_by_force() {
    let registry = registry().await;
    let first = push_to(tree(&[("a.bin", b"one")]).path(), registry.address, "v1").await;
    let other = tree(&[("a.bin", b"two")]);
    let mut request = push_request(other.path(), registry.address, "v1");
    let error = push(&request, no_progress()).await.unwrap_err();
    let PushError::TagTaken { existing, new, .. } = &error else { panic!("{error}") };
    assert_eq!(existing.to_string(), first.digest);
    assert!(error.to_string().contains(new.as_str()));
    assert_eq!(error.reason(), "TagTaken");
    request.force_tag = true;
    let moved = push(&request, no_progress()).await.unwrap();
    let tag = pull_request(&format!("{}/default/digits:v1", registry.address), Path::new("unused"));
    assert_eq!(inspect(&tag).await.unwrap().digest, moved.digest);
}

#[tokio::test]
async fn the_model_pack_manifest_has_the_same_blobs_and_is_not_mounted() {
    let registry = registry().await;
    let report = push_to(model().path(), registry.address, "v1").await;
    let store = tempfile::tempdir().unwrap();
    let request = pull_request(report.model_pack.as_deref().unwrap(), store.path());
    let model = inspect(&request).await.unwrap();
    let image = inspect(&pull_request(&report.image, store.path())).await.unwrap();
    assert!(model.model_pack && !image.model_pack);
    let digests = |summary: &modelway_oci::ImageSummary| {
        summary.layers.iter().map(|layer| layer.digest.clone()).collect::<Vec<_>>()
    };
    assert_eq!(digests(&model), digests(&image));
    assert!(model.layers.iter().all(|layer| layer.path.is_some()));
    let error = pull(&request, no_progress()).await.unwrap_err();
    assert!(error.to_string().contains("ModelPack"), "{error}");
    assert_eq!(list_tags(&request).await.unwrap(), ["v1", "v1-modelpack"]);
    assert_eq!(verify(&pull_request(&report.image, store.path())).await.unwrap(), image);
}

#[tokio::test]
async fn many_pulls_at_once_load_once_and_agree() {
    let registry = registry().await;
    let report = push_to(model().path(), registry.address, "v1").await;
    let store = tempfile::tempdir().unwrap();
    let request = pull_request(&report.image, store.path());
    let pull_alone = |request: modelway_oci::PullRequest| async move { pull(&request, no_progress()).await };
    let pulls = (0..6).map(|_| tokio::spawn(pull_alone(request.clone())));
    let images: Vec<_> =
        futures::future::join_all(pulls).await.into_iter().map(|image| image.unwrap().unwrap()).collect();
    assert!(images.iter().all(|image| *image == images[0]));
    let left = std::fs::read_dir(store.path()).unwrap().count();
    assert_eq!(left, 2, "the image and the folder of locks");
}

#[tokio::test]
async fn leftovers_of_a_killed_pull_are_swept() {
    let registry = registry().await;
    let report = push_to(tree(&[("a.bin", b"one")]).path(), registry.address, "v1").await;
    let store = tempfile::tempdir().unwrap();
    let hex = report.digest.strip_prefix("sha256:").unwrap();
    let own = store.path().join(format!(".tmp-{hex}-abc/rootfs/models"));
    let foreign = store.path().join(format!(".tmp-{}-abc/rootfs", "0".repeat(64)));
    for dir in [&own, &foreign] {
        std::fs::create_dir_all(dir).unwrap();
    }
    // An image without its manifest: killed while it was removed.
    std::fs::create_dir_all(store.path().join(hex).join("rootfs/models/old")).unwrap();
    let pulled = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap();
    assert!(!own.exists() && !pulled.path.join("models/old").exists());
    clean_store(store.path()).unwrap();
    assert!(!foreign.exists() && pulled.path.exists());
}

#[tokio::test]
async fn a_damaged_blob_is_never_published() {
    let registry = registry().await;
    let report = push_to(tree(&[("a.bin", &noise(100_000, 1))]).path(), registry.address, "v1").await;
    let summary = inspect(&pull_request(&report.image, Path::new("unused"))).await.unwrap();
    let hex = summary.layers[0].digest.strip_prefix("sha256:").unwrap();
    let blob = registry.dir.path().join("blobs/sha256").join(hex);
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[50_000] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    let store = tempfile::tempdir().unwrap();
    let request = pull_request(&report.image, store.path());
    let error = pull(&request, no_progress()).await.unwrap_err();
    assert!(matches!(error, PullError::Unusable { .. }), "{error}");
    assert_eq!(error.reason(), "ImageInvalid");
    assert!(!store.path().join(report.digest.strip_prefix("sha256:").unwrap()).exists());
    assert!(verify(&request).await.is_err());
}

#[tokio::test]
async fn an_unknown_image_is_named() {
    let registry = registry().await;
    let store = tempfile::tempdir().unwrap();
    let name = format!("{}/default/digits@sha256:{}", registry.address, "0".repeat(64));
    let error = pull(&pull_request(&name, store.path()), no_progress()).await.unwrap_err();
    assert!(matches!(&error, PullError::NotFound(shown) if *shown == name), "{error}");
}

#[tokio::test]
async fn progress_is_told_and_ends_at_the_total() {
    let registry = registry().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let source = model();
    let request = push_request(source.path(), registry.address, "v1");
    let pushing = async move { push(&request, Arc::new(move |progress| sink.lock().push(progress))).await };
    tokio::spawn(pushing).await.unwrap().unwrap();
    let told = told.lock();
    assert!(matches!(told.first(), Some(Progress::Planned { files: 5, .. })), "{told:?}");
    assert!(matches!(told.last(), Some(Progress::Moved { bytes, total }) if bytes == total), "{told:?}");
}

#[tokio::test]
async fn facts_of_the_run_refer_to_the_image_and_do_not_change_it() {
    let registry = registry().await;
    let source = tree(&[("a.bin", b"one")]);
    let mut digests = Vec::new();
    for job in ["first", "second"] {
        let mut request = push_request(source.path(), registry.address, "v1");
        request.metadata = serde_json::json!({"job": job});
        digests.push(push(&request, no_progress()).await.unwrap().digest);
    }
    assert_eq!(digests[0], digests[1]);
    let url = format!("http://{}/v2/default/digits/referrers/{}", registry.address, digests[0]);
    let list: serde_json::Value = crate::support::http_client().get(url).send().await.unwrap().json().await.unwrap();
    let kinds: Vec<_> = list["manifests"].as_array().unwrap().iter().map(|one| one["artifactType"].clone()).collect();
    assert_eq!(kinds, ["application/vnd.modelway.run.v1+json"; 2]);
}
