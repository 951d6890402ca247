//! What the controller may not do is told on the object that waits for it.

use http::Method;
use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    faults::Faults,
    platform::{NAMESPACE, Platform, Running, options},
    serving::{inference, is_ready, predictor, serve},
};

fn denied(verb: &str, resource: &str) -> String {
    format!(
        "{resource} is forbidden: User \"system:serviceaccount:modelway:controller\" cannot {verb} resource \
         \"{resource}\" in API group \"\" in the namespace \"{NAMESPACE}\""
    )
}

fn says(object: &Value, reason: &str, words: &[&str]) -> bool {
    read::condition(object, "Ready").is_some_and(|ready| {
        let message = read::text(ready, "/message");
        ready["status"] == "False" && ready["reason"] == reason && words.iter().all(|word| message.contains(word))
    })
}

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_may_not_be_seen_is_told_and_its_return_too() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    faults.forbid(Method::GET, "pods", &denied("list", "pods"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = options(faults.client(&platform.client, "controller"));
    options.admin = Some(listener);
    let controller = Running::start(options);
    platform.apply(&inference(&json!([predictor("v1", "train-1", 100)]))).await;
    platform.until(Kind::Inference, "digits", |live| says(live, "AccessDenied", &["list", "pods"])).await;
    let (code, answer) = get(address, "/readyz").await;
    assert!(code == 503 && answer.contains("cannot list resource \"pods\""), "{answer}");
    let (code, answer) = get(address, "/metrics").await;
    assert_eq!(code, 200);
    assert!(answer.contains("modelway_controller_api_forbidden_total{kind=\"Pod\",verb=\"list\"}"), "{answer}");
    faults.allow(Method::GET, "pods");
    platform.until(Kind::Inference, "digits", |live| says(live, "WaitingForModelVersion", &[])).await;
    assert_eq!(get(address, "/readyz").await.0, 200);
    assert_eq!(get(address, "/healthz").await.0, 200);
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_forbidden_is_told_with_verb_and_resource() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    serve(&platform).await;
    // Not a child's manifest but a replacement, which planners take no notice of.
    faults.forbid(Method::PUT, "routetables", &denied("update", "routetables"));
    platform.apply(&inference(&json!([predictor("v1", "train-1", 50), predictor("v2", "train-2", 50)]))).await;
    platform.until(Kind::Inference, "digits", |live| says(live, "AccessDenied", &["update", "routetables"])).await;
    faults.allow(Method::PUT, "routetables");
    platform.until(Kind::Inference, "digits", is_ready).await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_over_quota_is_told_and_made_once_there_is_room() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    let quota = "deployments.apps \"digits-router\" is forbidden: exceeded quota: small, requested: count/deployments.apps=1, used: 0, limited: 0";
    faults.forbid(Method::PATCH, "digits-router", quota);
    let controller = Running::start(options(faults.client(&platform.client, "controller")));
    platform.apply(&inference(&json!([predictor("v1", "train-1", 100)]))).await;
    platform
        .until(Kind::Inference, "digits", |live| {
            read::items(live, "/status/conditions").any(|condition| {
                condition["reason"] == "QuotaExceeded" && read::text(condition, "/message").contains("exceeded quota")
            })
        })
        .await;
    assert!(platform.get(Kind::Service, "digits").await.is_some(), "the rest is made");
    faults.allow(Method::PATCH, "digits-router");
    platform.until(Kind::Deployment, "digits-router", |_| true).await;
    controller.stop().await;
}
