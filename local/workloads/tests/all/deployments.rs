//! Deployments and the sets below them.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::{Cluster, name};

fn deployment(replicas: i32, image: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": image}]}
            }
        }
    })
}

fn image_of(pod: &Pod) -> String {
    pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

fn is_pending(pod: &Pod) -> bool {
    pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending")
}

/// Runs every pending pod until the rollout is done, watching that enough pods stay ready.
async fn roll(cluster: &Cluster, replicas: i32, least_ready: usize) -> Deployment {
    for turn in 0..2000_u32 {
        let pods = cluster.list::<Pod>().await;
        let ready = pods.iter().filter(|pod| !is_pending(pod)).count();
        assert!(ready >= least_ready, "{ready} ready pods, at least {least_ready} wanted");
        for pod in pods.iter().filter(|pod| is_pending(pod)) {
            cluster.run_pod(&name(pod), &format!("127.1.1.{}", turn % 250 + 1), true).await;
        }
        let deployment = cluster.api::<Deployment>().get("web").await.unwrap();
        if is_rolled_out(&deployment, replicas) {
            return deployment;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("rollout never ended: {:#?}", cluster.api::<Deployment>().get("web").await.unwrap().status);
}

/// What `kubectl rollout status` asks.
fn is_rolled_out(deployment: &Deployment, replicas: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == Some(replicas)
        && status.replicas == Some(replicas)
        && status.available_replicas == Some(replicas)
        && status.conditions.unwrap_or_default().iter().any(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"))
}

#[tokio::test]
async fn a_rolling_update_replaces_pods_without_losing_one() {
    let cluster = Cluster::start(11);
    cluster.create::<Deployment>(deployment(3, "v1")).await;
    roll(&cluster, 3, 0).await;
    cluster
        .patch::<Deployment>(
            "web",
            json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "v2"}]}}}}),
        )
        .await;
    let done = roll(&cluster, 3, 3).await;
    assert_eq!(done.annotations()["deployment.kubernetes.io/revision"], "2");
    let pods = cluster.wait_pods(|pods| pods.len() == 3).await;
    assert!(pods.iter().all(|pod| image_of(pod) == "v2" && pod.labels().contains_key("pod-template-hash")));
    let mut sets = cluster.list::<ReplicaSet>().await;
    sets.sort_by_key(|set| set.spec.as_ref().unwrap().replicas);
    let sizes: Vec<_> = sets.iter().map(|set| set.spec.as_ref().unwrap().replicas.unwrap()).collect();
    assert_eq!(sizes, [0, 3]);
    cluster.wait_event("web", "ScalingReplicaSet").await;
}

#[tokio::test]
async fn nothing_is_written_once_a_deployment_is_settled() {
    let cluster = Cluster::start(12);
    cluster.create::<Deployment>(deployment(2, "v1")).await;
    let done = roll(&cluster, 2, 0).await;
    let sets = cluster.list::<ReplicaSet>().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let later = cluster.api::<Deployment>().get("web").await.unwrap();
    assert_eq!(later.resource_version(), done.resource_version());
    assert_eq!(cluster.list::<ReplicaSet>().await[0].resource_version(), sets[0].resource_version());
}

#[tokio::test]
async fn scaling_changes_the_number_of_pods_both_ways() {
    let cluster = Cluster::start(13);
    cluster.create::<Deployment>(deployment(1, "v1")).await;
    roll(&cluster, 1, 0).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 4}})).await;
    roll(&cluster, 4, 1).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 2}})).await;
    roll(&cluster, 2, 2).await;
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 1);
}

#[tokio::test]
async fn a_deleted_pod_is_replaced_and_a_matching_one_is_adopted() {
    let cluster = Cluster::start(14);
    cluster.create::<Deployment>(deployment(2, "v1")).await;
    roll(&cluster, 2, 0).await;
    let pods = cluster.list::<Pod>().await;
    let labels = pods[0].labels().clone();
    cluster.api::<Pod>().delete(&name(&pods[0]), &kube::api::DeleteParams::default()).await.unwrap();
    cluster.wait_pods(|now| now.len() == 2 && now.iter().all(|pod| name(pod) != name(&pods[0]))).await;
    let stray = json!({"metadata": {"name": "stray", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "v1"}]}});
    cluster.create::<Pod>(stray).await;
    cluster.wait_pods(|pods| pods.len() == 2 && pods.iter().all(|pod| !pod.owner_references().is_empty())).await;
}

#[tokio::test]
async fn a_relabelled_pod_is_let_go_and_replaced() {
    let cluster = Cluster::start(15);
    cluster.create::<Deployment>(deployment(1, "v1")).await;
    roll(&cluster, 1, 0).await;
    let pod = name(&cluster.list::<Pod>().await[0]);
    cluster.patch::<Pod>(&pod, json!({"metadata": {"labels": {"app": "debug"}}})).await;
    let pods = cluster.wait_pods(|pods| pods.len() == 2).await;
    let free = pods.iter().find(|known| name(*known) == pod).unwrap();
    assert!(free.owner_references().is_empty());
}

#[tokio::test]
async fn everything_below_a_deployment_goes_with_it() {
    let cluster = Cluster::start(16);
    cluster.create::<Deployment>(deployment(2, "v1")).await;
    roll(&cluster, 2, 0).await;
    cluster.api::<Deployment>().delete("web", &kube::api::DeleteParams::background()).await.unwrap();
    cluster.wait_pods(<[Pod]>::is_empty).await;
    assert!(cluster.list::<ReplicaSet>().await.is_empty());
}
