//! Nonsense in, `Status` out: no body makes the server fall over.

use axum::body::Body;
use http::{Request, StatusCode};
use modelway_apiserver::kinds::ResourceKind;
use modelway_apiserver::{ApiServer, Options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

const BODIES_PER_KIND: u32 = 24;

/// Names that the server looks for while it prepares and checks an object.
const WORDS: [&str; 24] = [
    "spec",
    "status",
    "metadata",
    "template",
    "selector",
    "matchLabels",
    "labels",
    "containers",
    "name",
    "names",
    "kind",
    "versions",
    "schema",
    "openAPIV3Schema",
    "properties",
    "data",
    "stringData",
    "ports",
    "resources",
    "limits",
    "volumes",
    "strategy",
    "finalizers",
    "conditions",
];

/// A value of any shape out of words the server knows.
fn nonsense(rng: &mut StdRng, depth: u32) -> Value {
    match rng.random_range(0..if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => json!(rng.random_range(-3_i64..9_000_000_000)),
        2 => json!(rng.random_bool(0.5)),
        3 => json!(WORDS[rng.random_range(0..WORDS.len())]),
        4 => json!(""),
        5 => (0..rng.random_range(0..3)).map(|_| nonsense(rng, depth - 1)).collect(),
        _ => fields(rng, depth).into(),
    }
}

fn fields(rng: &mut StdRng, depth: u32) -> Map<String, Value> {
    (0..rng.random_range(0..6))
        .map(|_| (WORDS[rng.random_range(0..WORDS.len())].to_owned(), nonsense(rng, depth - 1)))
        .collect()
}

fn path(kind: &ResourceKind) -> String {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let namespace = if kind.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{}{namespace}/{}", kind.version, kind.plural)
}

async fn send(server: &ApiServer, method: &str, path: &str, content_type: &str, body: String) -> StatusCode {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Body::from(body))
        .unwrap();
    let response = server.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
    serde_json::from_slice::<Value>(&bytes).unwrap();
    status
}

#[tokio::test]
async fn any_body_gets_an_answer() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    for kind in server.kinds().iter() {
        let path = path(kind);
        for number in 0..BODIES_PER_KIND {
            let mut body = fields(&mut rng, 5);
            // Mostly past the first door.
            if number % 8 != 0 {
                body.insert("metadata".to_owned(), json!({"name": format!("n{number}")}));
            }
            let text = Value::Object(body.clone()).to_string();
            let created = send(&server, "POST", &path, "application/json", text.clone()).await;
            assert_ne!(created, StatusCode::INTERNAL_SERVER_ERROR, "seed {seed}: POST {path} {text}");
            body.insert("apiVersion".to_owned(), kind.api_version().into());
            body.insert("kind".to_owned(), kind.kind.clone().into());
            let text = Value::Object(body).to_string();
            let object = format!("{path}/n{number}?fieldManager=x");
            for patch in ["apply-patch+yaml", "merge-patch+json", "strategic-merge-patch+json", "json-patch+json"] {
                let patched = send(&server, "PATCH", &object, &format!("application/{patch}"), text.clone()).await;
                assert_ne!(patched, StatusCode::INTERNAL_SERVER_ERROR, "seed {seed}: {patch} {path} {text}");
            }
        }
    }
}

#[tokio::test]
async fn any_query_gets_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    for query in [
        "limit=-1",
        "limit=x",
        "continue=%FF",
        "continue=e30",
        "labelSelector=((((",
        "fieldSelector=%3D%3D",
        "resourceVersion=99999999999999999999",
        "watch=maybe",
        "resourceVersion=999999",
        "timeoutSeconds=x&watch=1",
        "resourceVersionMatch=Never",
    ] {
        let status = send(&server, "GET", &format!("/api/v1/configmaps?{query}"), "", String::new()).await;
        assert!(status.is_client_error() || status == StatusCode::GATEWAY_TIMEOUT, "{query}: {status}");
    }
}
