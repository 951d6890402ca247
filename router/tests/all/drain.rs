//! The way out.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::{
    Endpoint, Load, PATIENCE, TestRouter, client, eventually, get, infer, read_until_closed, reply, table,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_under_load_loses_nothing() {
    let v1 = Endpoint::named("v1").await;
    let table = table(1, &[("v1", 1, &[v1.address])]);
    let (old, new) = (TestRouter::start(&table).await, TestRouter::start(&table).await);
    let (target, receiver) = watch::channel(old.address);
    let load = Load::start(&receiver, 8);
    tokio::time::sleep(Duration::from_millis(300)).await;

    old.token.cancel();
    eventually("not ready", || async { get(old.admin, "/readyz").await.0 == 503 }).await;
    target.send(new.address).unwrap();

    let ended = tokio::time::timeout(PATIENCE, old.ended).await.unwrap().unwrap();
    assert!(ended.is_ok());
    load.finish().await;
}

#[tokio::test]
async fn kept_connections_are_told_before_they_are_closed() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let mut used = TcpStream::connect(router.address).await.unwrap();
    let mut idle = TcpStream::connect(router.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for stream in [&mut used, &mut idle] {
        stream.write_all(request).await.unwrap();
        let mut part = [0; 1024];
        let count = stream.read(&mut part).await.unwrap();
        assert!(!String::from_utf8_lossy(&part[..count]).to_ascii_lowercase().contains("connection: close"));
    }
    router.token.cancel();
    eventually("draining", || async { get(router.admin, "/readyz").await.0 == 503 }).await;
    used.write_all(request).await.unwrap();
    let (last, closed) = read_until_closed(&mut used, PATIENCE).await;
    assert!(
        closed && last.starts_with("HTTP/1.1 200") && last.to_ascii_lowercase().contains("connection: close"),
        "{last}"
    );
    // The idle one is closed only after the drain.
    assert_eq!(read_until_closed(&mut idle, Duration::from_millis(100)).await, (String::new(), false));
    assert_eq!(read_until_closed(&mut idle, PATIENCE).await, (String::new(), true));
    assert!(tokio::time::timeout(PATIENCE, router.ended).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn requests_in_flight_are_finished() {
    let slow = Endpoint::answering(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            reply("late")
        })
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[slow.address])])).await;
    let address = router.address;
    let answer = tokio::spawn(async move { get(address, "/").await });
    eventually("in flight", || async { router.arm_stats("v1").await["inFlight"] == 1 }).await;
    router.token.cancel();
    assert_eq!(answer.await.unwrap(), (200, "late".into()));
    assert!(tokio::time::timeout(PATIENCE, router.ended).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn held_requests_get_their_time_and_then_an_answer() {
    let mut asleep = table(1, &[("v1", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    let router = TestRouter::start_with(&asleep, |options| options.deadline = Duration::from_secs(2)).await;
    let address = router.address;
    let waiting: Vec<_> =
        (0..20).map(|user| tokio::spawn(async move { client().request(infer(address, user)).await })).collect();
    eventually("held", || async { get(router.admin, "/debug/held").await.1.contains("\"requests\":20") }).await;
    let stopped = tokio::time::Instant::now();
    router.token.cancel();
    for answer in waiting {
        let response = answer.await.unwrap().unwrap();
        assert!(stopped.elapsed() >= Duration::from_millis(1_400), "{:?}", stopped.elapsed());
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("this router is going away"), "{body:?}");
    }
    assert!(tokio::time::timeout(PATIENCE, router.ended).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn held_requests_are_released_also_while_the_router_goes_away() {
    let v1 = Endpoint::named("v1").await;
    let mut asleep = table(1, &[("v1", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    let router = TestRouter::start_with(&asleep, |options| options.deadline = Duration::from_secs(20)).await;
    let address = router.address;
    let waiting = tokio::spawn(async move { client().request(infer(address, 1)).await });
    eventually("held", || async { get(router.admin, "/debug/held").await.1.contains("\"requests\":1") }).await;
    router.token.cancel();
    eventually("draining", || async { get(router.admin, "/readyz").await.0 == 503 }).await;
    router.write(&table(2, &[("v1", 1, &[v1.address])]).to_string());
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert!(tokio::time::timeout(PATIENCE, router.ended).await.unwrap().unwrap().is_ok());
}
