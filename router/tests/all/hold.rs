//! Requests that wait for an endpoint.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::{Endpoint, EventStream, TestRouter, client, eventually, get, infer, send, table};

/// A table of one arm without endpoints in a state.
fn without_endpoints(generation: i64, state: &str) -> Value {
    let mut table = table(generation, &[("v1", 1, &[])]);
    table["arms"][0]["state"] = json!(state);
    table
}

/// One user's call, under way.
fn call(router: &TestRouter, user: u64) -> JoinHandle<Result<(u16, String), String>> {
    let address = router.address;
    tokio::spawn(async move { send(&client(), infer(address, user)).await })
}

async fn outcome(router: &TestRouter, outcome: &str) -> f64 {
    let labels = format!("{{arm=\"v1\",inference=\"digits\",outcome=\"{outcome}\"}}");
    router.metric(&format!("modelway_router_hold_outcomes_total{labels}")).await
}

async fn held(router: &TestRouter) -> Value {
    serde_json::from_str(&get(router.admin, "/debug/held").await.1).unwrap()
}

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
async fn requests_that_wait_already_leave_a_broken_arm_at_once() {
    let v2 = Endpoint::named("v2").await;
    let arms = |generation, state: &str| {
        let mut table = table(generation, &[("v1", 1_000_000, &[]), ("v2", 1, &[v2.address])]);
        table["arms"][0]["state"] = json!(state);
        table
    };
    let router = TestRouter::start(&arms(1, "Starting")).await;
    let mut events = EventStream::open(router.admin).await;
    let waiting = [call(&router, 1), call(&router, 2)];
    events.until(|event| event["arms"]["v1"]["held"] == 2).await;
    router.put(&arms(2, "Broken")).await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok((200, "v2".into())));
    }
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "failover": 2 }));
    assert!((outcome(&router, "failed_over").await - 2.0).abs() < 0.1);
}

#[tokio::test]
async fn held_requests_keep_their_arm_over_any_change_of_the_table() {
    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let arms = |generation, weights: [u32; 2], state: &str| {
        let mut table = table(generation, &[("v1", weights[0], &[]), ("v2", weights[1], &[v2.address])]);
        table["arms"][0]["state"] = json!(state);
        table
    };
    let router = TestRouter::start(&arms(1, [1_000_000, 1], "Asleep")).await;
    let mut events = EventStream::open(router.admin).await;
    let waiting: Vec<_> = (0..20).map(|user| call(&router, user)).collect();
    events.until(|event| event["arms"]["v1"]["held"] == 20).await;
    router.put(&arms(2, [1, 1_000_000], "Starting")).await;
    router.put(&arms(3, [0, 1], "Starting")).await;
    // Active, and its endpoints come a moment later.
    router.put(&arms(4, [0, 1], "Active")).await;
    assert_eq!(router.arm_stats("v1").await["held"], 20);
    router.put(&table(5, &[("v2", 1, &[v2.address]), ("v1", 0, &[v1.address])])).await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok((200, "v1".into())));
    }
    assert_eq!(router.arm_stats("v1").await["errors"], json!({}));
    assert!((outcome(&router, "released").await - 20.0).abs() < 0.1);
}

#[tokio::test]
async fn held_requests_of_an_arm_that_is_removed_go_to_one_that_exists() {
    let v2 = Endpoint::named("v2").await;
    let router = TestRouter::start(&without_endpoints(1, "Starting")).await;
    let mut events = EventStream::open(router.admin).await;
    let waiting = call(&router, 1);
    events.until(|event| event["arms"]["v1"]["held"] == 1).await;
    let mut asleep = table(2, &[("v2", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    router.put(&asleep).await;
    // It wakes the arm that it waits for now.
    events.until(|event| event["arms"]["v2"]["held"] == 1).await;
    router.put(&table(3, &[("v2", 1, &[v2.address])])).await;
    assert_eq!(waiting.await.unwrap(), Ok((200, "v2".into())));
}

#[tokio::test]
async fn waiting_is_bounded_and_ends_with_503_and_retry_after() {
    let mut table = without_endpoints(1, "Asleep");
    table["hold"] = json!({ "maxRequests": 1, "maxAgeMs": 1_000 });
    let router = TestRouter::start(&table).await;
    let mut events = EventStream::open(router.admin).await;
    let address = router.address;
    let first = tokio::spawn(async move { client().request(infer(address, 1)).await.unwrap() });
    events.until(|event| event["arms"]["v1"]["held"] == 1).await;
    let full = client().request(infer(address, 2)).await.unwrap();
    for (response, says) in [(full, "at most 1 requests"), (first.await.unwrap(), "waited 1.0 s")] {
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        let body: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        let error = body["error"].as_str().unwrap();
        assert!(error.contains("predictor `v1`") && error.contains(says), "{error}");
    }
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "no_endpoint": 2 }));
    assert!((outcome(&router, "full").await - 1.0).abs() < 0.1);
    assert!((outcome(&router, "expired").await - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn waiting_counts_bytes_in_memory_and_not_those_still_to_come() {
    let mut table = without_endpoints(1, "Asleep");
    table["hold"] = json!({ "maxBytes": 100_000, "maxAgeMs": 60_000 });
    let router = TestRouter::start(&table).await;
    let mut large = TcpStream::connect(router.address).await.unwrap();
    large
        .write_all(b"POST /v2/models/m/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 50000000\r\n\r\nabc")
        .await
        .unwrap();
    eventually("it waits", || async { held(&router).await["arms"]["v1"]["requests"] == 1 }).await;
    assert_eq!(held(&router).await["arms"]["v1"]["bytes"], 65_536);
    let (status, body) = send(&client(), infer(router.address, 1).map(|_| vec![b'x'; 60_000].into())).await.unwrap();
    assert!(status == 503 && body.contains("100000 bytes"), "{status} {body}");
}

#[tokio::test]
async fn a_limit_on_the_whole_exchange_ends_the_wait_with_its_reason() {
    let mut table = without_endpoints(1, "Starting");
    table["timeouts"] = json!({ "totalMs": 300 });
    let router = TestRouter::start(&table).await;
    let (status, body) = send(&client(), infer(router.address, 1)).await.unwrap();
    assert!(status == 503 && body.contains("predictor `v1` is not ready"), "{status} {body}");
}

#[tokio::test]
async fn clients_that_vanish_free_their_places_at_once() {
    const CLIENTS: usize = 200;
    let mut table = without_endpoints(1, "Asleep");
    table["hold"] = json!({ "maxRequests": CLIENTS, "maxAgeMs": 600_000 });
    let router = TestRouter::start(&table).await;
    let held_is = |count: usize| {
        let router = &router;
        async move { eventually("held", || async { held(router).await["arms"]["v1"]["requests"] == count }).await }
    };
    for round in 0..3 {
        let mut streams = Vec::new();
        for _ in 0..CLIENTS {
            let mut stream = TcpStream::connect(router.address).await.unwrap();
            stream
                .write_all(b"POST /v2/models/m/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
                .await
                .unwrap();
            streams.push(stream);
        }
        held_is(CLIENTS).await;
        assert_eq!(send(&client(), infer(router.address, 1)).await.unwrap().0, 503, "round {round}: full");
        drop(streams);
        held_is(0).await;
    }
    eventually("counted", || async { outcome(&router, "client_gone").await > 599.0 }).await;
    assert_eq!(held(&router).await["arms"]["v1"]["bytes"], 0);
}

#[tokio::test]
async fn clients_that_vanish_in_the_middle_of_a_large_body_free_their_places_too() {
    let mut asleep = without_endpoints(1, "Asleep");
    asleep["hold"] = json!({ "maxAgeMs": 600_000 });
    let router = TestRouter::start(&asleep).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(router.address).await.unwrap();
        let head = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 50000000\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // More than the router reads ahead, and no more than its operating system takes: behind a full connection
        // nobody can be seen to leave.
        stream.write_all(&vec![b'x'; 100_000]).await.unwrap();
        streams.push(stream);
    }
    eventually("held", || async { held(&router).await["arms"]["v1"]["requests"] == 5 }).await;
    drop(streams);
    eventually("gone", || async { held(&router).await["arms"]["v1"]["requests"] == 0 }).await;
    assert!((outcome(&router, "client_gone").await - 5.0).abs() < 0.1);
}

#[tokio::test]
async fn a_large_body_that_was_held_arrives_whole() {
    let counting = Endpoint::answering(|request| {
        Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            crate::support::reply(body.len().to_string())
        })
    })
    .await;
    let router = TestRouter::start(&without_endpoints(1, "Asleep")).await;
    let request = infer(router.address, 1).map(|_| vec![b'x'; 5_000_000].into());
    let waiting = tokio::spawn(async move { send(&client(), request).await });
    eventually("held", || async { held(&router).await["arms"]["v1"]["requests"] == 1 }).await;
    router.put(&table(2, &[("v1", 1, &[counting.address])])).await;
    assert_eq!(waiting.await.unwrap(), Ok((200, "5000000".into())));
}

#[tokio::test]
async fn the_admin_port_says_what_waits_and_for_how_long() {
    let router = TestRouter::start(&without_endpoints(1, "Asleep")).await;
    let waiting = [call(&router, 1), call(&router, 2)];
    eventually("held", || async { held(&router).await["arms"]["v1"]["requests"] == 2 }).await;
    eventually("they age", || async { held(&router).await["arms"]["v1"]["oldestAgeMs"].as_u64() > Some(20) }).await;
    let report = held(&router).await;
    assert_eq!(report["limits"], json!({ "requests": 1_000, "bytes": 64 << 20, "ageMs": 300_000 }));
    let arm = &report["arms"]["v1"];
    assert_eq!((&arm["bytes"], &arm["pacing"], &arm["window"]), (&json!(4), &json!(false), &json!(0)));
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn no_weight_at_all_is_503() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 0, &[v1.address])])).await;
    let (status, body) = send(&client(), infer(router.address, 1)).await.unwrap();
    assert!(status == 503 && body.contains("weight 0"), "{status} {body}");
}
