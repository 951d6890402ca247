//! Definitions that are missing or too old keep their kinds back, and nothing else.

use modelway_plan::{Kind, json as read};
use serde_json::json;

use crate::{
    platform::{Platform, definitions},
    serving::{inference, predictor},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_definition_is_told_on_its_objects_and_keeps_nothing_else_back() {
    let mut platform = Platform::without_kinds();
    let mut older = definitions();
    let inferences = older.iter_mut().find(|one| one["metadata"]["name"] == "inferences.serving.kubedl.io").unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let spec = inferences.pointer_mut(spec).unwrap();
    spec["properties"].as_object_mut().unwrap().remove("traffic").unwrap();
    spec.as_object_mut().unwrap().remove("x-kubernetes-validations");
    platform.install(&older).await;
    platform.start_controller();
    platform
        .apply(&json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
        "metadata": {"name": "digits", "namespace": "default"},
        "spec": {"framework": "ONNX", "predictors": [predictor("v1", "train-1", 100)]}}))
        .await;
    platform
        .until(Kind::Inference, "digits", |live| {
            read::condition(live, "Ready").is_some_and(|ready| {
                ready["reason"] == "DefinitionOutdated" && read::text(ready, "/message").contains("spec.traffic")
            })
        })
        .await;
    platform.publish("train-1", 'a').await;
    assert!(platform.names(Kind::Deployment).await.is_empty(), "nothing is made for it");
    platform.install_kinds().await;
    platform.apply(&inference(&json!([predictor("v1", "train-1", 100)]))).await;
    platform.until(Kind::Deployment, "digits-v1", |_| true).await;
    platform.stop_controller().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_definition_keeps_only_its_kinds_back() {
    let mut platform = Platform::without_kinds();
    let of_models: Vec<_> = definitions().into_iter().filter(|one| one["spec"]["group"] == "model.kubedl.io").collect();
    platform.install(&of_models).await;
    platform.start_controller();
    platform.publish("train-1", 'a').await;
    platform.install_kinds().await;
    platform.apply(&inference(&json!([predictor("v1", "train-1", 100)]))).await;
    platform.until(Kind::Deployment, "digits-v1", |_| true).await;
}
