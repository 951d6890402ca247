//! A predictor that sleeps: killed at every stage, woken while it falls asleep, its pod taken away.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use modelway_api::Inference;
use serde_json::{Value, json};

use crate::harness::{Platform, Scratch};

/// Longest wait; generous, since test machines are shared.
const WAIT: Duration = Duration::from_mins(2);

/// A server that is there at once, and sleeps after seven seconds without a request.
fn sleeper() -> Value {
    json!({
        "apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
        "metadata": {"name": "sleeper", "namespace": "default"},
        "spec": {"framework": "Custom", "predictors": [{
            "name": "a", "replicas": 0,
            "autoScale": {"minReplicas": 0, "maxReplicas": 2, "window": "6s", "scaleToZeroGrace": "0s"},
            "template": {"spec": {
                "containers": [{
                    "name": "server", "image": modelway_api::image(),
                    "command": ["modelway", "registry", "--dir", "/data", "--listen", "$(POD_IP):8080"],
                    "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "readinessProbe": {"httpGet": {"path": "/v2/", "port": 8080}, "periodSeconds": 1},
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }},
        }]},
    })
}

async fn inferences(platform: &Platform) -> Api<Inference> {
    Api::namespaced(platform.client().await, "default")
}

/// Waits until the predictor has that many pods, and gives the Inference's URL.
async fn until_pods(platform: &Platform, pods: i32) -> String {
    let (api, start) = (inferences(platform).await, Instant::now());
    loop {
        let status = api.get("sleeper").await.ok().and_then(|inference| inference.status).unwrap_or_default();
        let are = status.predictor_statuses.iter().map(|predictor| (predictor.replicas, predictor.ready_replicas));
        match status.inference_endpoint.clone() {
            Some(url) if are.eq([(pods, pods)]) => return url,
            _ => assert!(start.elapsed() < WAIT, "not {pods} pods: {status:#?}\n{}", platform.log()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One request, answered however often the connection is refused while routers start.
async fn answered(platform: &Platform, url: &str) {
    let http = reqwest::Client::builder().timeout(WAIT).no_proxy().build().unwrap();
    let start = Instant::now();
    loop {
        match http.get(format!("{url}/v2/")).send().await {
            Ok(answer) => {
                let (status, text) = (answer.status(), answer.text().await.unwrap());
                assert!(status.is_success(), "{status}: {text}\n{}", platform.log());
                return;
            }
            Err(error) => assert!(start.elapsed() < WAIT, "{error:?}\n{}", platform.log()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_sleeper_wakes_whenever_the_platform_was_killed() {
    let scratch = Scratch::new();
    let mut platform = scratch.up();
    let patch = Patch::Apply(sleeper());
    inferences(&platform).await.patch("sleeper", &PatchParams::apply("test"), &patch).await.unwrap();
    // Asleep; woken and on its way; awake.
    for stage in 0..3 {
        let url = until_pods(&platform, 0).await;
        match stage {
            0 => {}
            1 => {
                let http = reqwest::Client::builder().no_proxy().build().unwrap();
                let waits = tokio::spawn(http.get(format!("{url}/v2/")).send());
                tokio::time::sleep(Duration::from_millis(200)).await;
                waits.abort();
            }
            _ => answered(&platform, &url).await,
        }
        platform.kill();
        scratch.wait_until_nothing_is_left();
        platform = scratch.up();
        answered(&platform, &url).await;
    }
    until_pods(&platform, 0).await;
}

#[tokio::test]
async fn requests_at_the_edge_of_sleep_and_without_a_pod_are_answered() {
    let scratch = Scratch::new();
    let platform = scratch.up();
    let patch = Patch::Apply(sleeper());
    inferences(&platform).await.patch("sleeper", &PatchParams::apply("test"), &patch).await.unwrap();
    let url = until_pods(&platform, 0).await;
    // It falls asleep six to ten seconds after a request: the next one comes before, while and after it does.
    for milliseconds in [5_800, 6_600, 7_400, 8_200] {
        answered(&platform, &url).await;
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    answered(&platform, &url).await;
    // Its only pod is taken away, and the requests wait for the next one.
    let pods: Api<Pod> = Api::namespaced(platform.client().await, "default");
    let of = ListParams::default().labels("kubedl.io/predictor-name=a");
    for pod in pods.list(&of).await.unwrap() {
        pods.delete(&pod.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        answered(&platform, &url).await;
    }
}
