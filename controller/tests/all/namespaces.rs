//! A controller of some namespaces asks for nothing of others, and for nothing that belongs to the whole cluster.

use kube::api::{Api, DynamicObject, PostParams};
use modelway_plan::Kind;
use serde_json::json;

use crate::{
    faults::Faults,
    platform::{NAMESPACE, Platform, Running, options},
};

async fn namespace(platform: &Platform, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let object: k8s_openapi::api::core::v1::Namespace = serde_json::from_value(object).unwrap();
    Api::all(platform.client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_named_namespaces_are_looked_at() {
    let platform = Platform::with_kinds().await;
    namespace(&platform, "theirs").await;
    namespace(&platform, "second").await;
    let faults = Faults::new(1);
    let mut options = options(faults.client(&platform.client, "controller"));
    options.namespaces = vec![NAMESPACE.to_owned(), "second".to_owned(), NAMESPACE.to_owned()];
    let controller = Running::start(options);
    let theirs: Api<DynamicObject> =
        Api::namespaced_with(platform.client.clone(), "theirs", &resource(Kind::Inference));
    let inference = json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
        "metadata": {"name": "other", "namespace": "theirs"},
        "spec": {"framework": "ONNX", "predictors": [{"name": "v1", "modelVersion": "x"}]}});
    theirs.create(&PostParams::default(), &serde_json::from_value(inference).unwrap()).await.unwrap();
    platform.publish("train-1", 'a').await;
    let other = theirs.get("other").await.unwrap();
    assert!(other.data["status"].is_null(), "{:?}", other.data["status"]);
    let is_allowed = |path: &str| {
        let is_discovery = matches!(path.split('/').count(), 3 | 4) && !path.contains("namespaces");
        let is_name = ["/api/v1/namespaces/default", "/api/v1/namespaces/second"].contains(&path);
        is_discovery || is_name || path.contains("/namespaces/default/") || path.contains("/namespaces/second/")
    };
    let wrong: Vec<_> = faults.seen().into_iter().filter(|seen| !is_allowed(&seen.path)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    controller.stop().await;
}

fn resource(kind: Kind) -> kube::api::ApiResource {
    let (group, version, name, plural) = kind.names();
    kube::api::ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version(),
        kind: name.to_owned(),
        plural: plural.to_owned(),
    }
}
