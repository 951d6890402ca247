//! Jobs.

use std::time::Instant;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{ResourceExt, api::PropagationPolicy};
use serde_json::{Value, json};

use crate::cluster::{Cluster, name};

fn job(spec: &Value) -> Value {
    let mut all = json!({"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "modelway:0.1.0", "command": ["modelway"]}]}}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "train"}, "spec": all})
}

fn condition(job: &Job, type_: &str) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == type_ && c.status == "True")?.reason.clone()
}

#[tokio::test]
async fn a_job_completes_when_its_pod_succeeds() {
    let cluster = Cluster::start(1);
    cluster.create::<Job>(job(&json!({}))).await;
    let pods = cluster.wait_pods(|pods| pods.len() == 1).await;
    let pod = name(&pods[0]);
    assert!(pod.starts_with("train-"), "{pod}");
    cluster.run_pod(&pod, "127.1.0.1", true).await;
    cluster.wait::<Job>("train", |job| job.status.as_ref().is_some_and(|s| s.ready == Some(1))).await;
    let ended = Instant::now();
    cluster.end_pod(&pod, 0).await;
    let done = cluster.wait::<Job>("train", |job| condition(job, "Complete").is_some()).await;
    let took = ended.elapsed();
    println!("from the pod's end to Complete: {took:?}");
    assert!(took.as_millis() < 2000, "took {took:?}");
    let status = done.status.clone().unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(1), None, None));
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    assert_eq!(condition(&done, "SuccessCriteriaMet").as_deref(), Some("CompletionsReached"));
    assert!(cluster.list::<Pod>().await[0].finalizers().is_empty());
    cluster.wait_event("train", "SuccessfulCreate").await;
    cluster.wait_event("train", "Completed").await;
}

#[tokio::test]
async fn a_job_gives_up_at_its_backoff_limit() {
    let cluster = Cluster::start(2);
    cluster.create::<Job>(job(&json!({"backoffLimit": 1}))).await;
    for run in 1..=2 {
        let pods = cluster.wait_pods(|pods| pods.len() == run).await;
        let fresh = pods.iter().find(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending"));
        cluster.end_pod(&name(fresh.unwrap()), 1).await;
    }
    let failed = cluster.wait::<Job>("train", |job| condition(job, "Failed").is_some()).await;
    assert_eq!(condition(&failed, "Failed").as_deref(), Some("BackoffLimitExceeded"));
    assert_eq!(condition(&failed, "FailureTarget").as_deref(), Some("BackoffLimitExceeded"));
    assert_eq!(failed.status.unwrap().failed, Some(2));
    cluster.wait_event("train", "BackoffLimitExceeded").await;
}

#[tokio::test]
async fn disruptions_do_not_use_up_the_backoff_limit() {
    let cluster = Cluster::start(3);
    cluster.create::<Job>(job(&json!({"backoffLimit": 0}))).await;
    for run in 1..=3 {
        let pods = cluster.wait_pods(|pods| pods.len() == run).await;
        let fresh = pods.iter().find(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending"));
        let status = json!({"status": {"phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PlatformRestarted"}]}});
        cluster.patch_pod_status(&name(fresh.unwrap()), status).await;
    }
    let pods = cluster.wait_pods(|pods| pods.len() == 4).await;
    let fresh = pods.iter().find(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending"));
    cluster.end_pod(&name(fresh.unwrap()), 0).await;
    let done = cluster.wait::<Job>("train", |job| condition(job, "Complete").is_some()).await;
    assert_eq!(done.status.unwrap().failed, None);
}

#[tokio::test]
async fn completions_run_in_parallel_and_are_counted_over_a_restart_of_the_controllers() {
    let mut cluster = Cluster::start(4);
    cluster.create::<Job>(job(&json!({"completions": 5, "parallelism": 3}))).await;
    let pods = cluster.wait_pods(|pods| pods.len() == 3).await;
    cluster.end_pod(&name(&pods[0]), 0).await;
    cluster.stop_controllers().await;
    for pod in cluster.list::<Pod>().await {
        if pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending") {
            cluster.end_pod(&name(&pod), 0).await;
        }
    }
    cluster.start_controllers();
    let mut ended = 0;
    while ended < 5 {
        let pods = cluster.list::<Pod>().await;
        for pod in &pods {
            if pod.status.as_ref().unwrap().phase.as_deref() == Some("Pending") {
                cluster.end_pod(&name(pod), 0).await;
            }
        }
        ended = pods.len();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let done = cluster.wait::<Job>("train", |job| condition(job, "Complete").is_some()).await;
    assert_eq!(done.status.unwrap().succeeded, Some(5));
    assert_eq!(cluster.list::<Pod>().await.len(), 5);
}

#[tokio::test]
async fn pods_go_with_their_job() {
    let cluster = Cluster::start(5);
    cluster.create::<Job>(job(&json!({}))).await;
    let pods = cluster.wait_pods(|pods| pods.len() == 1).await;
    let background =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    cluster.api::<Job>().delete("train", &background).await.unwrap();
    cluster.wait_pods(|pods| pods.iter().all(|pod| name(pod) != name(&pods[0]) || pod.finalizers().is_empty())).await;
    let left = cluster.wait_pods(<[Pod]>::is_empty).await;
    assert!(left.is_empty() && pods.len() == 1);
}

#[tokio::test]
async fn a_finished_job_goes_after_its_time_to_live() {
    let cluster = Cluster::start(6);
    cluster.create::<Job>(job(&json!({"ttlSecondsAfterFinished": 0}))).await;
    let pods = cluster.wait_pods(|pods| pods.len() == 1).await;
    cluster.end_pod(&name(&pods[0]), 0).await;
    cluster.wait_pods(<[Pod]>::is_empty).await;
    assert!(cluster.list::<Job>().await.is_empty());
}
