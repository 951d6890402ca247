//! What single built-in kinds do.

use serde_json::{Value, json};

use super::support::{Api, MERGE, fields};

pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        // Nothing runs in these cases.
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]},
        }},
    })
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "main:1"}], "automountServiceAccountToken": false},
    })
}

pub async fn immutable_config_maps_stay(api: &Api) {
    api.new_map("a", &json!({}), &json!({"k": "1"})).await;
    api.patch(&api.map("a"), MERGE, &json!({"immutable": true})).await.unwrap();
    let status = api.patch(&api.map("a"), MERGE, &json!({"data": {"k": "2"}})).await.unwrap_err();
    assert_eq!((status.code, fields(&status)), (422, vec!["data".to_owned()]));
    api.patch(&api.map("a"), MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
}

pub async fn secrets_fold_string_data(api: &Api) {
    let body = json!({"metadata": {"name": "a"}, "stringData": {"user": "me"}});
    let secret = api.post(&api.path("v1", "secrets"), &body).await.unwrap();
    assert_eq!(secret["data"], json!({"user": "bWU="}));
    assert!(secret.get("stringData").is_none());
    assert_eq!(secret["type"], "Opaque");
}

pub async fn deployments_have_defaults_generation_and_scale(api: &Api) {
    let path = api.path("apps/v1", "deployments");
    let made = api.post(&path, &deployment("web")).await.unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    assert_eq!(made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 30);
    let scale = format!("{path}/web/scale");
    assert_eq!(api.get(&scale).await.unwrap()["kind"], "Scale");
    let scaled = api.patch(&scale, MERGE, &json!({"spec": {"replicas": 3}})).await.unwrap();
    assert_eq!(scaled["spec"]["replicas"], 3);
    assert_eq!(scaled["status"]["selector"], "app=web");
    let scaled = api.get(&format!("{path}/web")).await.unwrap();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["metadata"]["generation"]), (&json!(3), &json!(2)));
    let mut wrong = deployment("wrong");
    wrong["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(api.post(&path, &wrong).await.unwrap_err().code, 422);
}

pub async fn status_and_spec_are_written_apart(api: &Api) {
    let path = format!("{}/a", api.path("v1", "pods"));
    let mut placed = pod("a");
    placed["spec"]["nodeName"] = "a-node-that-nobody-runs".into();
    placed["status"] = json!({"phase": "Running"});
    let made = api.post(&api.path("v1", "pods"), &placed).await.unwrap();
    assert_eq!(made["status"]["phase"], "Pending");
    let patched = api.patch(&path, MERGE, &json!({"status": {"phase": "Running"}})).await.unwrap();
    assert_eq!(patched["status"]["phase"], "Pending");
    let both = json!({"spec": {"containers": []}, "status": {"phase": "Running"}});
    let patched = api.patch(&format!("{path}/status"), MERGE, &both).await.unwrap();
    assert_eq!(patched["status"]["phase"], "Running");
    assert_eq!(patched["spec"]["containers"].as_array().unwrap().len(), 1);
    api.delete(&path, &json!({"gracePeriodSeconds": 0})).await.unwrap();
}

pub async fn jobs_select_their_own_pods(api: &Api) {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]}});
    let body = json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": template}});
    let job = api.post(&api.path("batch/v1", "jobs"), &body).await.unwrap();
    let uid = &job["metadata"]["uid"];
    assert_eq!(job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], *uid);
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    assert_eq!((&labels["batch.kubernetes.io/job-name"], &labels["controller-uid"]), (&json!("a"), uid));
    assert_eq!(job["spec"]["backoffLimit"], 6);
}

pub async fn pods_are_bound_once(api: &Api) {
    let path = api.path("v1", "pods");
    let mut unscheduled = pod("a");
    unscheduled["spec"]["schedulerName"] = "none".into();
    api.post(&path, &unscheduled).await.unwrap();
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        })
    };
    api.post(&format!("{path}/a/binding"), &binding("first-node")).await.unwrap();
    assert_eq!(api.get(&format!("{path}/a")).await.unwrap()["spec"]["nodeName"], "first-node");
    assert!(api.post(&format!("{path}/a/binding"), &binding("second-node")).await.is_err());
    api.delete(&format!("{path}/a"), &json!({"gracePeriodSeconds": 0})).await.unwrap();
}
