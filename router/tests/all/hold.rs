//! Requests that wait for an endpoint.

use std::time::Duration;

use serde_json::json;

use crate::support::{Endpoint, EventStream, TestRouter, client, infer, send, table};

#[tokio::test]
async fn a_request_waits_for_a_starting_arm_and_is_released() {
    let v1 = Endpoint::named("v1").await;
    let mut starting = table(1, &[("v1", 1, &[])]);
    starting["arms"][0]["state"] = json!("Starting");
    let router = TestRouter::start(&starting).await;
    let mut events = EventStream::open(router.admin).await;
    assert_eq!(events.next().await["arms"]["v1"]["held"], 0);
    let address = router.address;
    let waiting: Vec<_> =
        (0..5).map(|user| tokio::spawn(async move { send(&client(), infer(address, user)).await })).collect();
    events.until(|event| event["arms"]["v1"]["held"] == 5).await;

    router.put(&table(2, &[("v1", 1, &[v1.address])])).await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok((200, "v1".into())));
    }
    let event = events.until(|event| event["arms"]["v1"]["held"] == 0 && event["generation"] == 2).await;
    assert_eq!(event["arms"]["v1"]["errors"], json!({}));
}

#[tokio::test]
async fn an_active_arm_without_endpoints_fails_over_and_pays_for_it() {
    let v2 = Endpoint::named("v2").await;
    let mut table = table(1, &[("v1", 1_000_000, &[]), ("v2", 1, &[v2.address])]);
    table["hold"] = json!({ "maxAgeMs": 200 });
    let router = TestRouter::start(&table).await;
    let started = std::time::Instant::now();
    assert_eq!(send(&client(), infer(router.address, 1)).await, Ok((200, "v2".into())));
    assert!(started.elapsed() >= Duration::from_millis(200));
    let stats = router.arm_stats("v1").await;
    assert_eq!((&stats["requests"], &stats["errors"]), (&json!(1), &json!({ "failover": 1 })));
    assert_eq!(router.arm_stats("v2").await["requests"], 0);
}

#[tokio::test]
async fn a_broken_arm_fails_over_at_once() {
    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let mut table = table(1, &[("v1", 1_000_000, &[v1.address]), ("v2", 1, &[v2.address])]);
    table["arms"][0]["state"] = json!("Broken");
    let router = TestRouter::start(&table).await;
    assert_eq!(send(&client(), infer(router.address, 1)).await, Ok((200, "v2".into())));
}

#[tokio::test]
async fn waiting_is_bounded_and_ends_with_503_and_retry_after() {
    let mut table = table(1, &[("v1", 1, &[])]);
    table["arms"][0]["state"] = json!("Asleep");
    table["hold"] = json!({ "maxRequests": 1, "maxAgeMs": 1_000 });
    let router = TestRouter::start(&table).await;
    let mut events = EventStream::open(router.admin).await;
    let address = router.address;
    let first = tokio::spawn(async move { client().request(infer(address, 1)).await.unwrap() });
    events.until(|event| event["arms"]["v1"]["held"] == 1).await;
    for response in [client().request(infer(address, 2)).await.unwrap(), first.await.unwrap()] {
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
    }
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "no_endpoint": 2 }));
}

#[tokio::test]
async fn no_weight_at_all_is_503() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 0, &[v1.address])])).await;
    let (status, body) = send(&client(), infer(router.address, 1)).await.unwrap();
    assert!(status == 503 && body.contains("weight 0"), "{status} {body}");
}
