//! What the platform costs when nothing happens.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};

use crate::harness::{Scratch, eventually, text};

/// The store's revision grows with every write of any object.
async fn revision(client: &kube::Client) -> String {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap()
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let scratch = Scratch::new();
    let quickstart = ["quickstart", "--first-answer", "--output", "json", "--api-port", "0", "--registry-port", "0"];
    let output = scratch.run(&quickstart);
    assert!(output.status.success(), "{}", text(&output));
    let platform = scratch.up();
    eventually("both servers run", || {
        let servers = scratch.leftovers().iter().filter(|line| line.contains("runtime onnx")).count();
        if servers >= 2 { Ok(()) } else { Err(format!("{servers} servers")) }
    });
    let client = platform.client().await;
    // Settled: two looks a while apart agree. Then it must stay so.
    let mut before = revision(&client).await;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = revision(&client).await;
        if now == before {
            break;
        }
        before = now;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(revision(&client).await, before, "something writes at rest: {}", text(&scratch.run(&["get", "events"])));
    drop(platform);
}
