//! The server over real sockets, on models that the example trainer writes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use modelway_digits::{Variant, data};
use modelway_runtime::{Engine, Model, RuntimeOptions};
use serde_json::{Value, json};

struct Server {
    url: String,
    client: reqwest::Client,
}

fn options(model: &Path) -> RuntimeOptions {
    RuntimeOptions {
        model: model.to_owned(),
        name: "digits".to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: NonZeroUsize::new(2).unwrap(),
        max_batch_size: NonZeroUsize::new(8).unwrap(),
        max_batch_delay: Duration::from_millis(1),
        max_queue: NonZeroUsize::new(256).unwrap(),
    }
}

/// A loaded model, and a free port for it.
async fn engine() -> (Engine, tokio::net::TcpListener) {
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    modelway_digits::train(Variant::Centroid, folder.path()).unwrap();
    let options = options(folder.path());
    let engine = Engine::start(Model::load(folder.path(), "digits").unwrap(), &options).unwrap();
    (engine, tokio::net::TcpListener::bind(options.listen).await.unwrap())
}

async fn start() -> Server {
    let (engine, listener) = engine().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, modelway_runtime::router(engine)).await });
    Server { url, client: reqwest::Client::new() }
}

impl Server {
    async fn infer(&self, body: &Value) -> (u16, Value) {
        let answer = self.client.post(format!("{}/v2/models/digits/infer", self.url)).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

fn request(pixels: &[f32], rows: usize) -> Value {
    json!({"id": "one", "inputs": [{"name": "images", "shape": [rows, 64], "datatype": "FP32", "data": pixels}]})
}

fn digits(answer: &Value) -> Vec<usize> {
    let scores: Vec<f64> =
        answer["outputs"][0]["data"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    scores.chunks(10).map(|row| (0..10).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap()).collect()
}

#[tokio::test]
async fn answers_are_the_same_alone_and_in_batches() {
    let server = start().await;
    let (_, held_out) = data::split();
    let rows: Vec<Vec<f32>> = (0..64).map(|row| held_out.images.row(row).to_vec()).collect();
    let mut alone = Vec::new();
    for row in &rows {
        let (status, answer) = server.infer(&request(row, 1)).await;
        assert_eq!((status, &answer["id"]), (200, &json!("one")));
        alone.push(digits(&answer)[0]);
    }
    let (_, together) = server.infer(&request(&rows.concat(), 64)).await;
    assert_eq!(digits(&together), alone);
    let bodies: Vec<Value> = rows.iter().map(|row| request(row, 1)).collect();
    let crowd: Vec<_> = bodies.iter().map(|body| server.infer(body)).collect();
    let mut crowded = Vec::new();
    for answer in futures::future::join_all(crowd).await {
        crowded.push(digits(&answer.1)[0]);
    }
    assert_eq!(crowded, alone);
    let right = alone.iter().zip(&held_out.digits).filter(|(found, digit)| found == digit).count();
    assert!(right >= 50, "{right} of 64 right");
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong() {
    let server = start().await;
    let tensor = |shape: Value, datatype: &str, name: &str| json!({"inputs": [{"name": name, "shape": shape, "datatype": datatype, "data": vec![0; 64]}]});
    let mut output = tensor(json!([1, 64]), "FP32", "images");
    output["outputs"] = json!([{"name": "loss"}]);
    let cases = [
        (tensor(json!([64, 1]), "FP32", "images"), "has shape [64, 1], the model wants [-1, 64]"),
        (tensor(json!([1, 64]), "INT64", "images"), "has datatype INT64, the model wants FP32"),
        (tensor(json!([1, 64]), "FP32", "pictures"), "no input \"pictures\"; its inputs are \"images\""),
        (json!({"inputs": []}), "input \"images\" is missing"),
        (json!({"inputs": [{"name": "images", "shape": [0, 64], "datatype": "FP32", "data": []}]}), "first dimensions"),
        (json!({"input": 1}), "missing field `inputs`"),
        (output, "no output \"loss\"; its outputs are \"scores\""),
    ];
    for (body, expected) in cases {
        let (status, answer) = server.infer(&body).await;
        let message = answer["error"].as_str().unwrap();
        assert_eq!(status, 400, "{message}");
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[tokio::test]
async fn metadata_and_health_follow_the_protocol() {
    let server = start().await;
    let get = |path: &str| server.client.get(format!("{}{path}", server.url)).send();
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready"] {
        assert_eq!(get(path).await.unwrap().status(), 200, "{path}");
    }
    let metadata: Value = get("/v2/models/digits").await.unwrap().json().await.unwrap();
    assert_eq!(metadata["inputs"], json!([{"name": "images", "datatype": "FP32", "shape": [-1, 64]}]));
    assert_eq!(metadata["outputs"], json!([{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}]));
    let unknown = get("/v2/models/other").await.unwrap();
    assert_eq!(unknown.status(), 404);
}

#[test]
fn a_folder_without_a_model_or_a_broken_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Model::load(folder.path(), "x").err().unwrap().to_string();
    assert!(error.contains("holds no .onnx file"), "{error}");
    std::fs::write(folder.path().join("model.onnx"), b"not protobuf at all").unwrap();
    let error = Model::load(folder.path(), "x").err().unwrap().to_string();
    assert!(error.contains("is not an ONNX model that can be served"), "{error}");
}

#[tokio::test]
async fn connections_are_taken_for_a_while_after_a_stop() {
    let (engine, listener) = engine().await;
    let url = format!("http://{}/v2/health/ready", listener.local_addr().unwrap());
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(modelway_runtime::serve(listener, engine, stop.clone(), Duration::from_secs(2)));
    stop.cancel();
    // A router that has not heard of the stop yet: a connection of its own.
    let ask = || async { reqwest::Client::new().get(&url).send().await.map(|answer| answer.status().as_u16()) };
    assert_eq!(ask().await.unwrap(), 200);
    serving.await.unwrap().unwrap();
    assert!(ask().await.is_err(), "the port is closed in the end");
}
