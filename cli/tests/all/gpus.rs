//! GPUs without a GPU: a made-up node, the real scheduler, and hands that play the kubelet.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use modelway_tests::cluster::{self, Level};
use modelway_tests::flows::{self, Flow};
use serde_json::{Value, json};

use crate::harness::MODELWAY;

const NAMESPACE: &str = "gpus";
const NODE: &str = "with-gpus";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cheapest_number_of_gpus_is_found_by_the_real_scheduler() {
    let Some(cluster) = cluster::shared(Level::Control).await else { return };
    let client = cluster.client().await.unwrap();
    install(&client).await;
    cluster.fake_node(NODE).await.unwrap();
    let flow = Flow::new(client.clone(), NAMESPACE).await.unwrap();
    let flags = ["--default-registry", "registry.example.com/models", "--watch-namespaces", NAMESPACE];
    let controller = tokio::process::Command::new(MODELWAY)
        .args(["controller", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(flags)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let outcome = tokio::select! {
        outcome = found(&flow) => outcome,
        () = kubelet(&client) => unreachable!("it plays for ever"),
    };
    drop(controller);
    _ = Api::<Node>::all(client).delete(NODE, &DeleteParams::default()).await;
    outcome.unwrap();
}

async fn found(flow: &Flow) -> anyhow::Result<()> {
    flows::gpus_are_candidates_with_a_price(flow).await?;
    flows::instance_types_are_candidates_with_a_price(flow).await
}

async fn install(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in modelway_api::crds() {
        let name = definition.metadata.name.clone().unwrap();
        let apply = PatchParams::apply("gpus").force();
        definitions.patch(&name, &apply, &Patch::Apply(&definition)).await.unwrap();
    }
}

/// The node is alive and has two GPUs; its pods are ready at once, and those of Jobs do what they are there for.
async fn kubelet(client: &Client) {
    let (nodes, pods) = (Api::<Node>::all(client.clone()), Api::<Pod>::namespaced(client.clone(), NAMESPACE));
    loop {
        let now = Timestamp::now().to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "MadeUp", "lastHeartbeatTime": now});
        let gpus = json!({"nvidia.com/gpu": "2"});
        let kind = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "two-gpus"}}});
        _ = nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(kind)).await;
        let status = json!({"status": {"capacity": gpus, "allocatable": gpus, "conditions": [ready]}});
        _ = nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(status)).await;
        for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let name = pod.metadata.name.clone().unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
            } else if let Some(status) = played(&pod) {
                _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What becomes of a pod that has found its node.
fn played(pod: &Pod) -> Option<Value> {
    let spec = pod.spec.as_ref()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if spec.node_name.is_none() || phase != Some("Pending") {
        return None;
    }
    let now = Timestamp::now().to_string();
    let container = &spec.containers[0];
    let is_client = pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Job");
    if !is_client {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
        let running = json!([{"name": container.name, "image": "x", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": now}}}]);
        return Some(json!({"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}],
            "conditions": [ready], "containerStatuses": running}));
    }
    let gpus = container.env.iter().flatten().find(|variable| variable.name == "NVIDIA_COM_GPU")?.value.clone()?;
    let message = format!("{{\"metrics\": {{\"qps\": \"{gpus}0\"}}}}");
    let ended = json!({"exitCode": 0, "reason": "Completed", "message": message, "startedAt": now, "finishedAt": now});
    Some(json!({"phase": "Succeeded", "containerStatuses": [{"name": container.name, "image": "x", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"terminated": ended}}]}))
}
