//! Services: addresses, endpoints and the way to the pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{Cluster, PATIENCE, name};

fn service(name: &str, port: u16) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": "web"},
        "ports": [{"name": "http", "port": port, "targetPort": "web"}]}})
}

fn pod(name: &str, port: u16) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "main", "image": "v1", "ports": [{"name": "web", "containerPort": port}]}]}})
}

fn address_of(service: &Service) -> Option<String> {
    service.spec.as_ref()?.cluster_ip.clone().filter(|address| !address.is_empty())
}

/// A pod's server on an address of its own; says its name to everybody.
async fn server(cluster: &Cluster, last: u8, name: &'static str) -> (String, u16) {
    // Beside the service block of this cluster, so that no two tests share an address.
    let text = cluster.folder.path().display().to_string();
    let third = text.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) & 0x7f;
    let address = format!("127.200.{third}.{last}");
    let listener = TcpListener::bind(format!("{address}:0")).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(name.as_bytes()).await;
        }
    });
    (address, port)
}

async fn ask(address: &str, port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((address, port)).await.ok()?;
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.ok()?.ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

async fn wait_answer(address: &str, port: u16, wanted: &str) {
    let wait = async {
        while ask(address, port).await.as_deref() != Some(wanted) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{address}:{port} never said {wanted}"));
}

/// The slice with the pods, once the empty one from before there were pods is gone.
async fn only_slice(cluster: &Cluster) -> EndpointSlice {
    let wait = async {
        loop {
            let mut slices = cluster.list::<EndpointSlice>().await;
            if slices.len() == 1 && !slices[0].endpoints.is_empty() {
                return slices.remove(0);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

#[tokio::test]
async fn a_service_address_leads_to_ready_pods_only() {
    let cluster = Cluster::start(21);
    let (first, port) = server(&cluster, 1, "one").await;
    cluster.create::<Service>(service("web", 8080)).await;
    let found = cluster.wait::<Service>("web", |service| address_of(service).is_some()).await;
    let address = address_of(&found).unwrap();
    assert!(cluster.block.contains(address.parse().unwrap()));
    cluster.create::<Pod>(pod("a", port)).await;
    cluster.run_pod("a", &first, false).await;
    let asking = tokio::spawn({
        let address = address.clone();
        async move { ask(&address, 8080).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asking.is_finished(), "held while no pod is ready");
    cluster.run_pod("a", &first, true).await;
    let held = tokio::time::timeout(PATIENCE, asking).await.unwrap().unwrap();
    // The listener may have come after the connection was tried.
    assert!(held.is_none() || held.as_deref() == Some("one"));
    wait_answer(&address, 8080, "one").await;

    let slices = [only_slice(&cluster).await];
    let labels = slices[0].metadata.labels.clone().unwrap();
    assert_eq!(labels["kubernetes.io/service-name"], "web");
    let endpoint = &slices[0].endpoints[0];
    assert_eq!(endpoint.addresses, [first]);
    assert_eq!(endpoint.target_ref.as_ref().unwrap().name.as_deref(), Some("a"));
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(i32::from(port)));
}

#[tokio::test]
async fn addresses_survive_a_restart_and_are_never_given_twice() {
    let mut cluster = Cluster::start(22);
    for n in 0..10 {
        cluster.create::<Service>(service(&format!("s{n}"), 8000 + n)).await;
    }
    let mut before = Vec::new();
    for n in 0..10 {
        let name = format!("s{n}");
        before.push(address_of(&cluster.wait::<Service>(&name, |s| address_of(s).is_some()).await).unwrap());
    }
    cluster.stop_controllers().await;
    cluster.start_controllers();
    for n in 10..20 {
        cluster.create::<Service>(service(&format!("s{n}"), 8000 + n)).await;
        cluster.wait::<Service>(&format!("s{n}"), |s| address_of(s).is_some()).await;
    }
    let mut all: Vec<String> = cluster.list::<Service>().await.iter().filter_map(address_of).collect();
    assert!(before.iter().all(|address| all.contains(address)));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 20);
}

#[tokio::test]
async fn a_held_port_is_reported_with_its_holder_and_opens_when_it_is_free() {
    let mut cluster = Cluster::start(23);
    cluster.create::<Service>(service("web", 8081)).await;
    let found = cluster.wait::<Service>("web", |service| address_of(service).is_some()).await;
    let address = address_of(&found).unwrap();
    cluster.stop_controllers().await;
    let holder = TcpListener::bind(format!("{address}:8081")).await.unwrap();
    cluster.start_controllers();
    let event = cluster.wait_event("web", "PortHeldByHost").await;
    let message = event.message.unwrap();
    assert!(message.contains("8081") && message.contains(&std::process::id().to_string()), "{message}");
    drop(holder);
    let (pod_address, port) = server(&cluster, 2, "free").await;
    cluster.create::<Pod>(pod("a", port)).await;
    cluster.run_pod("a", &pod_address, true).await;
    wait_answer(&address, 8081, "free").await;
}

#[tokio::test]
async fn a_terminating_pod_keeps_serving_until_another_is_ready() {
    let cluster = Cluster::start(24);
    let (old, port) = server(&cluster, 3, "old").await;
    cluster.create::<Service>(service("web", 8082)).await;
    let found = cluster.wait::<Service>("web", |service| address_of(service).is_some()).await;
    let address = address_of(&found).unwrap();
    let mut on_node = pod("old", port);
    on_node["spec"]["nodeName"] = json!("local");
    cluster.create::<Pod>(on_node).await;
    cluster.run_pod("old", &old, true).await;
    wait_answer(&address, 8082, "old").await;
    cluster.api::<Pod>().delete("old", &kube::api::DeleteParams::default()).await.unwrap();
    let draining = |slice: &EndpointSlice| {
        let conditions = slice.endpoints.first().and_then(|endpoint| endpoint.conditions.clone()).unwrap_or_default();
        conditions.terminating == Some(true) && conditions.serving == Some(true) && conditions.ready == Some(false)
    };
    let slice = name(&only_slice(&cluster).await);
    cluster.wait::<EndpointSlice>(&slice, draining).await;
    wait_answer(&address, 8082, "old").await;
    let (new, port) = server(&cluster, 4, "new").await;
    cluster.create::<Pod>(pod("new", port)).await;
    cluster.run_pod("new", &new, true).await;
    wait_answer(&address, 8082, "new").await;
}

#[tokio::test]
async fn node_ports_are_refused_with_a_reason() {
    let cluster = Cluster::start(25);
    let mut outside = service("web", 8083);
    outside["spec"]["type"] = json!("NodePort");
    cluster.create::<Service>(outside).await;
    cluster.wait_event("web", "ServiceTypeNotSupported").await;
    cluster.wait::<Service>("web", |service| address_of(service).is_some()).await;
}
