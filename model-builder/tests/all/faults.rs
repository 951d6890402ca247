//! Every line of the upload rules, against a registry that breaks them.

use http::Method;
use modelway_oci::{Auth, PullError, PushError, no_progress, pull, push};

use crate::support::faulty::{Fault, Faulty, Rule};
use crate::support::{contents, noise, pull_request, push_request, tree};

const BLOBS: &str = "/blobs/";
const UPLOADS: &str = "/blobs/uploads/";
const MANIFESTS: &str = "/manifests/";

fn rule(method: Method, path: &'static str, times: usize, fault: Fault) -> Rule {
    Rule { method, path, times, fault }
}

/// One layer that is streamed (too large to be hashed first), one that is not.
fn model() -> tempfile::TempDir {
    tree(&[("weights.bin", &noise(17 << 20, 1)), ("config.json", b"{}")])
}

async fn pushed(source: &tempfile::TempDir, registry: &Faulty) -> String {
    let report = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap();
    assert_eq!(registry.unused_rules(), 0, "a fault was never met");
    let store = tempfile::tempdir().unwrap();
    let image = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap();
    assert_eq!(contents(&image.path.join("models")), contents(source.path()));
    report.digest
}

#[tokio::test]
async fn passing_errors_at_any_step_are_retried() {
    let source = tree(&[("config.json", b"{}"), ("weights.bin", &noise(100_000, 2))]);
    let steps = [
        (Method::HEAD, BLOBS),
        (Method::POST, UPLOADS),
        (Method::PUT, UPLOADS),
        (Method::PUT, MANIFESTS),
        (Method::GET, MANIFESTS),
    ];
    let mut digests = std::collections::BTreeSet::new();
    for code in [408, 425, 429, 500, 502, 503, 504] {
        let rules = steps.iter().map(|(method, path)| rule(method.clone(), path, 1, Fault::Status(code))).collect();
        digests.insert(pushed(&source, &Faulty::start(rules).await).await);
    }
    assert_eq!(digests.len(), 1);
}

#[tokio::test]
async fn a_streamed_layer_survives_errors_and_resets() {
    let source = model();
    let size = 17 << 20;
    let faults = [
        (Method::PATCH, Fault::Status(503)),
        (Method::PATCH, Fault::ResetRequest(0)),
        (Method::PATCH, Fault::ResetRequest(size / 2)),
        (Method::PATCH, Fault::ResetRequest(size / 100 * 99)),
        (Method::PATCH, Fault::LostAnswer),
        (Method::PUT, Fault::Status(500)),
        (Method::PUT, Fault::LostAnswer),
    ];
    for (method, fault) in faults {
        let shown = format!("{method} {fault:?}");
        let registry = Faulty::start(vec![rule(method, UPLOADS, 1, fault)]).await;
        pushed(&source, &registry).await;
        assert!(registry.count(&Method::PATCH, UPLOADS) <= 2, "{shown}");
    }
}

#[tokio::test]
async fn a_broken_upload_goes_on_where_it_stopped() {
    let source = model();
    let size: u64 = 17 << 20;
    let registry = Faulty::start(vec![rule(Method::PATCH, UPLOADS, 1, Fault::ResetRequest(size / 100 * 90))]).await;
    let report = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap();
    assert!(registry.count(&Method::GET, UPLOADS) == 1);
    assert!(report.upload.sent_bytes < report.size_bytes + size / 2, "{:?}", report.upload);
}

#[tokio::test]
async fn a_commit_whose_answer_got_lost_is_not_repeated() {
    let source = model();
    let registry = Faulty::start(vec![rule(Method::PUT, UPLOADS, 1, Fault::LostAnswer)]).await;
    pushed(&source, &registry).await;
    assert_eq!(registry.count(&Method::PATCH, UPLOADS), 1);
}

#[tokio::test]
async fn lasting_errors_end_the_push_with_the_registry_s_words() {
    let source = tree(&[("a.bin", b"x")]);
    for (code, reason) in [(400, "RegistryFailed"), (403, "RegistryDenied"), (413, "RegistryFailed")] {
        let registry = Faulty::start(vec![rule(Method::PUT, UPLOADS, 99, Fault::Status(code))]).await;
        let error = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(error.to_string().contains(&code.to_string()), "{error}");
        assert_eq!(registry.count(&Method::PUT, MANIFESTS), 0, "nothing may be tagged");
    }
}

#[tokio::test]
async fn endless_errors_end_after_the_allowed_tries() {
    let source = tree(&[("a.bin", b"x")]);
    let registry = Faulty::start(vec![rule(Method::POST, UPLOADS, 99, Fault::Status(503))]).await;
    let error = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap_err();
    assert!(matches!(error, PushError::Registry { .. }), "{error}");
    assert_eq!(registry.count(&Method::POST, UPLOADS), 4);
}

#[tokio::test]
async fn a_broken_download_goes_on_by_range() {
    let source = model();
    let registry = Faulty::start(Vec::new()).await;
    let report = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap();
    registry.add(rule(Method::GET, BLOBS, 4, Fault::ResetResponse(5 << 20)));
    let store = tempfile::tempdir().unwrap();
    let image = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap();
    assert_eq!(contents(&image.path.join("models")), contents(source.path()));
    assert!(
        registry.seen().iter().any(|seen| seen.range.as_deref().is_some_and(|range| range.len() > "bytes=0-".len()))
    );
}

#[tokio::test]
async fn a_download_that_never_gets_on_ends() {
    let source = tree(&[("a.bin", b"x")]);
    let registry = Faulty::start(Vec::new()).await;
    let report = push(&push_request(source.path(), registry.address, "v1"), no_progress()).await.unwrap();
    registry.add(rule(Method::GET, BLOBS, 99, Fault::ResetResponse(0)));
    let store = tempfile::tempdir().unwrap();
    let error = pull(&pull_request(&report.image, store.path()), no_progress()).await.unwrap_err();
    assert!(matches!(error, PullError::Registry { .. }), "{error}");
    let left = std::fs::read_dir(store.path()).unwrap().count();
    assert_eq!(left, 1, "only the folder of locks");
}

#[tokio::test]
async fn tokens_are_fetched_and_renewed() {
    let source = model();
    let registry = Faulty::start(Vec::new()).await;
    registry.want_tokens(5);
    let mut request = push_request(source.path(), registry.address, "v1");
    request.auth = Auth::Basic { username: "user".to_owned(), password: "password".to_owned() };
    push(&request, no_progress()).await.unwrap();
    let seen = registry.seen();
    let tokens = seen.iter().filter(|seen| seen.path == "/token").collect::<Vec<_>>();
    assert!(tokens.len() > 2, "{}", tokens.len());
    assert!(tokens.iter().all(|seen| seen.authorization.as_deref().is_some_and(|shown| shown.starts_with("Basic "))));
    let basic_elsewhere = seen.iter().any(|seen| {
        seen.path != "/token" && seen.authorization.as_deref().is_some_and(|shown| shown.starts_with("Basic "))
    });
    assert!(!basic_elsewhere, "the password goes to the token server only");
}

#[tokio::test]
async fn authorization_never_goes_to_another_host() {
    let source = model();
    let registry = Faulty::start(Vec::new()).await;
    let storage = registry.twin().await;
    registry.want_tokens(1000);
    registry.add(rule(Method::POST, UPLOADS, 99, Fault::OtherHost(storage.address)));
    let mut request = push_request(source.path(), registry.address, "v1");
    request.auth = Auth::Basic { username: "user".to_owned(), password: "password".to_owned() };
    push(&request, no_progress()).await.unwrap();
    let there = storage.seen();
    assert!(there.iter().any(|seen| seen.method == Method::PATCH), "{there:?}");
    assert!(there.iter().all(|seen| seen.authorization.is_none()), "{there:?}");
}
