//! Attempts made again.

use std::time::Duration;

use http::Request;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Endpoint, Load, PATIENCE, TestRouter, client, dead_address, infer, loopback, send, table};

#[tokio::test]
async fn a_dead_endpoint_loses_nothing() {
    let (live, dead) = (Endpoint::named("v1").await, dead_address());
    let router = TestRouter::start(&table(1, &[("v1", 1, &[live.address, dead])])).await;
    let client = client();
    for user in 0..200 {
        assert_eq!(send(&client, infer(router.address, user)).await.unwrap(), (200, "v1".into()));
    }
    let stats = router.arm_stats("v1").await;
    assert_eq!(stats["requests"], 200);
    // Ejected after five failures in a row.
    assert_eq!(stats["errors"], json!({ "connect": 5 }));
    assert!(router.metric("modelway_router_retries_total{reason=\"connect\"}").await >= 5.0);
    assert!(router.metric("modelway_router_ejections_total").await >= 1.0);
}

#[tokio::test]
async fn nothing_alive_is_502_and_says_what_was_tried() {
    let dead = dead_address();
    let mut table = table(1, &[("v1", 1, &[dead])]);
    table["hold"] = json!({ "maxAgeMs": 200 });
    let router = TestRouter::start(&table).await;
    let (status, body) = send(&client(), infer(router.address, 1)).await.unwrap();
    assert_eq!(status, 502);
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(error["error"].as_str().unwrap().starts_with(&format!("cannot connect to {dead}")), "{error}");
}

#[tokio::test]
async fn a_request_waits_for_the_only_endpoint_to_come_back() {
    let gone = dead_address();
    let router = TestRouter::start(&table(1, &[("v1", 1, &[gone])])).await;
    let (client, address) = (client(), router.address);
    let waiting = tokio::spawn(async move { send(&client, infer(address, 1)).await });
    tokio::time::timeout(PATIENCE, async { while router.arm_stats("v1").await["held"] != 1 {} }).await.unwrap();
    let v1 = Endpoint::named("v1").await;
    router.put(&table(2, &[("v1", 1, &[v1.address])])).await;
    assert_eq!(waiting.await.unwrap(), Ok((200, "v1".into())));
}

/// Answers one request per connection, claims to keep it, and closes it after `linger` or upon the next request.
async fn closing_endpoint(linger: Option<Duration>) -> std::net::SocketAddr {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                match linger {
                    Some(linger) => tokio::time::sleep(linger).await,
                    None => drop(stream.read(&mut request).await),
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn connections_that_the_endpoint_closed_meanwhile_lose_nothing() {
    let address = closing_endpoint(Some(Duration::ZERO)).await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[address])])).await;
    let client = client();
    for user in 0..300 {
        assert_eq!(send(&client, infer(router.address, user)).await, Ok((200, "ok".into())));
    }
}

#[tokio::test]
async fn inference_calls_survive_a_close_that_races_with_them_and_other_posts_are_not_repeated() {
    let address = closing_endpoint(None).await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[address])])).await;
    let client = client();
    for user in 0..20 {
        assert_eq!(send(&client, infer(router.address, user)).await, Ok((200, "ok".into())));
    }
    assert!(router.metric("modelway_router_retries_total{reason=\"reset\"}").await >= 5.0);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let load = Request::post(format!("http://{}/v2/repository/load", router.address));
        statuses.push(send(&client, load.body("{}".into()).unwrap()).await.unwrap().0);
    }
    assert!(statuses.contains(&502), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_stops_under_load_loses_nothing() {
    let (first, second) = (Endpoint::named("v1").await, Endpoint::named("v1").await);
    let router = TestRouter::start(&table(1, &[("v1", 1, &[first.address, second.address])])).await;
    let load = Load::on(router.address, 8);
    tokio::time::sleep(Duration::from_millis(300)).await;
    first.stop().await;
    router.put(&table(2, &[("v1", 1, &[second.address])])).await;
    load.finish().await;
}

/// Reads a request on each connection, tells of it, and resets the connection when it is told to.
async fn resetting_endpoint() -> (std::net::SocketAddr, tokio::sync::mpsc::Receiver<tokio::sync::oneshot::Sender<()>>) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let (reset, wait) = tokio::sync::oneshot::channel();
            tell.send(reset).await.unwrap();
            let _ = wait.await;
            stream.set_zero_linger().unwrap();
        }
    });
    (address, told)
}

#[tokio::test]
async fn an_inference_call_that_an_ending_endpoint_resets_goes_elsewhere() {
    let (ending, mut told) = resetting_endpoint().await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[ending])])).await;
    let address = router.address;
    let answer = tokio::spawn(async move { send(&client(), infer(address, 1)).await });
    let reset = tokio::time::timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    let v1 = Endpoint::named("v1").await;
    router.put(&table(2, &[("v1", 1, &[v1.address])])).await;
    reset.send(()).unwrap();
    assert_eq!(answer.await.unwrap(), Ok((200, "v1".into())));
    assert!(router.metric("modelway_router_retries_total{reason=\"reset\"}").await > 0.5);
}

#[tokio::test]
async fn an_inference_call_that_the_last_endpoint_of_an_arm_resets_waits_for_the_next_one() {
    let (ending, mut told) = resetting_endpoint().await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[ending])])).await;
    let address = router.address;
    let answer = tokio::spawn(async move { send(&client(), infer(address, 1)).await });
    let reset = tokio::time::timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    let mut asleep = table(2, &[("v1", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    router.put(&asleep).await;
    let mut events = crate::support::EventStream::open(router.admin).await;
    reset.send(()).unwrap();
    events.until(|event| event["arms"]["v1"]["held"] == 1).await;
    let v1 = Endpoint::named("v1").await;
    router.put(&table(3, &[("v1", 1, &[v1.address])])).await;
    assert_eq!(answer.await.unwrap(), Ok((200, "v1".into())));
}

#[tokio::test]
async fn a_call_that_an_admitted_endpoint_resets_is_not_made_again() {
    let (crashing, mut told) = resetting_endpoint().await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[crashing])])).await;
    let address = router.address;
    let answer = tokio::spawn(async move { send(&client(), infer(address, 1)).await });
    tokio::time::timeout(PATIENCE, told.recv()).await.unwrap().unwrap().send(()).unwrap();
    let (status, body) = answer.await.unwrap().unwrap();
    assert!(status == 502 && body.contains("ended the connection"), "{status} {body}");
    assert!(told.try_recv().is_err(), "no second attempt");
}
