//! The way out.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::{Endpoint, Load, PATIENCE, TestRouter, eventually, get, read_until_closed, reply, table};

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
