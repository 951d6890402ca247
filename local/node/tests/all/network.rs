//! Addresses, probes, listeners.

use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::platform::{Platform, condition, container, is_ready, sh, waiting};
use crate::roles::command;

fn server(listen: &str, probes: &Value) -> Value {
    let mut container = json!({"name": "a", "image": "x", "command": command("http_server"),
        "ports": [{"name": "web", "containerPort": 18080}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "LISTEN", "value": listen},
            {"name": "SICK", "value": "/v/sick"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
    json!({"terminationGracePeriodSeconds": 1, "volumes": [{"name": "v", "emptyDir": {}}], "containers": [container]})
}

const READINESS: &str = r#"{"readinessProbe": {"httpGet": {"port": "web", "path": "/ready"}, "failureThreshold": 2}}"#;

fn readiness() -> Value {
    serde_json::from_str(READINESS).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_is_ready_at_its_own_address() {
    let platform = Platform::start().await;
    let begin = Instant::now();
    for name in ["a", "b"] {
        platform.create(name, server("$(POD_IP):18080", &readiness())).await;
    }
    let mut addresses = vec![];
    for name in ["a", "b"] {
        let pod = platform.wait(name, "ready", is_ready).await;
        assert!(container(&pod, 0).unwrap().ready);
        addresses.push(pod.status.unwrap().pod_ip.unwrap());
    }
    println!("ready after {:?}", begin.elapsed());
    assert_ne!(addresses[0], addresses[1]);
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_probe_takes_readiness_away_and_liveness_restarts() {
    let platform = Platform::start().await;
    platform.create("r", server("$(POD_IP):18080", &readiness())).await;
    let liveness = json!({"livenessProbe": {"httpGet": {"port": 18080}, "failureThreshold": 2}, "startupProbe": {"tcpSocket": {"port": 18080}}});
    platform.create("l", server("$(POD_IP):18080", &liveness)).await;
    for name in ["r", "l"] {
        let pod = platform.wait(name, "ready", is_ready).await;
        let volume = platform.data.join("pods").join(pod.metadata.uid.as_deref().unwrap()).join("volumes/v");
        std::fs::write(volume.join("sick"), "").unwrap();
    }
    let pod = platform.wait("r", "not ready", |pod| !is_ready(pod)).await;
    assert_eq!(container(&pod, 0).unwrap().restart_count, 0);
    platform.wait_event("r", "Unhealthy").await;
    let pod = platform.wait("l", "restarted", |pod| container(pod, 0).is_some_and(|c| c.restart_count >= 1)).await;
    drop(pod);
    platform.wait_event("l", "Killing").await;
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_probes_decide_readiness() {
    let platform = Platform::start().await;
    let go = platform.data.join("go");
    platform
        .create(
            "e",
            json!({"containers": [{"name": "a", "image": "x", "command": ["sleep", "1000"],
        "readinessProbe": {"exec": {"command": sh(&format!("test -e {}", go.display()))}}}]}),
        )
        .await;
    let pod = platform.wait("e", "running", |pod| container(pod, 0).is_some_and(|c| c.started == Some(true))).await;
    assert!(!is_ready(&pod));
    std::fs::write(&go, "").unwrap();
    platform.wait("e", "ready", is_ready).await;
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_all_addresses_is_never_ready() {
    let platform = Platform::start().await;
    platform
        .create(
            "wild",
            server("0.0.0.0:18081", &json!({"readinessProbe": {"tcpSocket": {"port": 18081}}, "ports": []})),
        )
        .await;
    let refused = |pod: &k8s_openapi::api::core::v1::Pod| {
        condition(pod, "Ready").is_some_and(|ready| ready.reason.as_deref() == Some("ListensOnAllAddresses"))
    };
    let pod = platform.wait("wild", "refused", refused).await;
    assert!(condition(&pod, "Ready").unwrap().message.unwrap().contains("$(POD_IP)"));
    platform.wait_event("wild", "ListensOnAllAddresses").await;
    platform.create("unprobed", server("0.0.0.0:18082", &json!({"ports": [{"containerPort": 18082}]}))).await;
    platform.wait("unprobed", "refused", refused).await;
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_the_host_holds_is_found_before_the_start() {
    let platform = Platform::start().await;
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port();
    platform.create("held", json!({"containers": [{"name": "a", "image": "x", "command": ["sleep", "1000"], "ports": [{"containerPort": port}]}]})).await;
    let pod = platform
        .wait("held", "held up", |pod| waiting(pod).is_some_and(|(reason, _)| reason == "PortHeldByHost"))
        .await;
    let message = waiting(&pod).unwrap().1;
    assert!(message.contains(&std::process::id().to_string()) && message.contains(&port.to_string()), "{message}");
    drop(host);
    let pod = platform.wait("held", "started", |pod| container(pod, 0).is_some_and(|c| c.started == Some(true))).await;
    let address: IpAddr = pod.status.unwrap().pod_ip.unwrap().parse().unwrap();
    assert!(address.is_loopback());
    tokio::time::timeout(Duration::from_secs(30), platform.stop()).await.unwrap();
}
