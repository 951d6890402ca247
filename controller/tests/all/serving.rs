//! Versions to traffic over the API.

use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

use crate::platform::{NAMESPACE, Platform};

pub fn inference(predictors: &Value) -> Value {
    json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
        "metadata": {"name": "digits", "namespace": NAMESPACE},
        "spec": {"framework": "ONNX", "predictors": predictors, "traffic": {"sticky": [{"header": "x-user"}]}}})
}

pub fn predictor(name: &str, job: &str, weight: i64) -> Value {
    json!({"name": name, "model": {"name": "digits", "job": job}, "trafficWeight": weight})
}

pub fn is_ready(inference: &Value) -> bool {
    read::condition_holds(inference, "Ready")
        && inference["status"]["observedGeneration"] == inference["metadata"]["generation"]
}

pub fn weights(table: &Value) -> Vec<(String, i64)> {
    read::items(table, "/spec/arms").map(|arm| (read::name_of(arm).to_owned(), read::number(arm, "/weight"))).collect()
}

async fn roll_out_all(platform: &Platform) {
    for name in ["digits-router", "digits-v1", "digits-v2"] {
        platform.roll_out(name).await;
    }
}

async fn serving() -> Platform {
    let platform = Platform::start().await;
    serve(&platform).await;
    platform
}

/// The whole way: an Inference that waits, two jobs, two versions, pods, addresses.
pub async fn serve(platform: &Platform) {
    platform.apply(&inference(&json!([predictor("v1", "train-1", 90), predictor("v2", "train-2", 10)]))).await;
    platform
        .until(Kind::Inference, "digits", |inference| {
            read::condition(inference, "Ready").is_some_and(|ready| ready["reason"] == "WaitingForModelVersion")
        })
        .await;
    platform.publish("train-1", 'a').await;
    platform.publish("train-2", 'b').await;
    roll_out_all(platform).await;
    for service in ["digits", "digits-v1", "digits-v2"] {
        platform.give_address(service).await;
    }
    platform.until(Kind::Inference, "digits", is_ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_is_served_reweighted_rolled_and_reduced() {
    let platform = serving().await;
    let served = platform.until(Kind::Inference, "digits", |inference| inference["status"]["split"] == "90/10").await;
    assert_eq!(served["status"]["inferenceEndpoint"], "http://127.1.128.9:8080");
    let key = platform.get(Kind::Secret, "digits-route-key").await.unwrap();
    let table = platform.get(Kind::RouteTable, "digits").await.unwrap();
    assert_eq!(weights(&table), [("v1".to_owned(), 90), ("v2".to_owned(), 10)]);

    platform.apply(&inference(&json!([predictor("v1", "train-1", 50), predictor("v2", "train-2", 50)]))).await;
    let before = read::number(&table, "/spec/generation");
    let table = platform.until(Kind::RouteTable, "digits", |table| weights(table)[0].1 == 50).await;
    assert!(read::number(&table, "/spec/generation") > before);

    platform.apply(&inference(&json!([predictor("v1", "train-2", 50), predictor("v2", "train-2", 50)]))).await;
    let is_new = |deployment: &Value| {
        read::annotation(deployment, "modelway.io/model-image").is_some_and(|image| image.contains("bbbb"))
    };
    let deployment = platform.until(Kind::Deployment, "digits-v1", is_new).await;
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let table = platform.get(Kind::RouteTable, "digits").await.unwrap();
    assert!(read::text(&table, "/spec/arms/0/model").contains("aaaa"), "the old pods still answer");
    platform.roll_out("digits-v1").await;
    platform.until(Kind::RouteTable, "digits", |table| read::text(table, "/spec/arms/0/model").contains("bbbb")).await;
    platform.until(Kind::Inference, "digits", is_ready).await;

    platform.apply(&inference(&json!([predictor("v2", "train-2", 50)]))).await;
    platform.until(Kind::RouteTable, "digits", |table| weights(table).len() == 1).await;
    platform
        .eventually("the removal of v1", || async {
            platform.get(Kind::Deployment, "digits-v1").await.is_none().then_some(())
        })
        .await;
    let same = platform.get(Kind::Secret, "digits-route-key").await.unwrap();
    assert_eq!(same["data"]["key"], key["data"]["key"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_of_zero_keep_the_routes() {
    let platform = serving().await;
    platform.apply(&inference(&json!([predictor("v1", "train-1", 0), predictor("v2", "train-2", 0)]))).await;
    platform
        .until(Kind::Inference, "digits", |inference| {
            read::condition(inference, "Ready").is_some_and(|ready| ready["reason"] == "AllWeightsZero")
        })
        .await;
    let table = platform.get(Kind::RouteTable, "digits").await.unwrap();
    assert_eq!(weights(&table), [("v1".to_owned(), 90), ("v2".to_owned(), 10)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_world_is_left_alone() {
    let platform = serving().await;
    until_quiet(&platform).await;
}

/// Quiet means that two looks, half a second apart, see the same; the bound is that of `eventually`.
pub async fn until_quiet(platform: &Platform) {
    let versions = || async {
        let mut all = Vec::new();
        for kind in [
            Kind::Inference,
            Kind::RouteTable,
            Kind::Deployment,
            Kind::Service,
            Kind::ModelVersion,
            Kind::Model,
            Kind::Job,
        ] {
            all.extend(platform.list(kind).await.iter().map(|object| object["metadata"]["resourceVersion"].clone()));
        }
        all
    };
    platform
        .eventually("quiet", || async {
            let before = versions().await;
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            (before == versions().await).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_manifests_are_refused_with_field_and_values() {
    let platform = Platform::start().await;
    let refused = |spec: Value| {
        let platform = &platform;
        async move {
            let object = json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
                "metadata": {"name": "x", "namespace": NAMESPACE}, "spec": spec});
            let object = serde_json::from_value(object).unwrap();
            let answer = platform.api(Kind::Inference).create(&kube::api::PostParams::default(), &object).await;
            answer.expect_err("it must be refused").to_string()
        }
    };
    let unknown = refused(json!({"framework": "Nope", "predictors": [{"name": "a", "template": {}}]})).await;
    assert!(unknown.contains("spec.framework") && unknown.contains("ONNX"), "{unknown}");
    let both = json!([{"name": "a", "modelVersion": "x", "model": {"name": "m", "latest": true}}]);
    let both = refused(json!({"framework": "ONNX", "predictors": both})).await;
    assert!(both.contains("at most one of model and modelVersion"), "{both}");
    let router = refused(json!({"predictors": [{"name": "router", "template": {}}]})).await;
    assert!(router.contains("may not be called router"), "{router}");
    let bare = refused(json!({"framework": "Triton", "predictors": [{"name": "a", "modelVersion": "x"}]})).await;
    assert!(bare.contains("needs a template"), "{bare}");
    let none = refused(json!({"framework": "ONNX", "predictors": [{"name": "a", "model": {"name": "m"}}]})).await;
    assert!(none.contains("exactly one of alias, job and latest"), "{none}");
}
